#pragma once

#include <optional>

#include "tutti/error.h"
#include "tutti/work.h"

namespace tutti::detail {

// Runs a callback of a Work: also where the calling thread has a group, the callback's calls are not in it. What it
// throws is logged and returned. What it owns goes when it has run.
std::optional<Error> run_callback(Work::Callback callback, const Work& work);

}  // namespace tutti::detail
