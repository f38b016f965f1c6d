#pragma once

#include <memory>

#include "base/clock.h"
#include "base/config.h"
#include "bootstrap/membership.h"
#include "bootstrap/process.h"
#include "bootstrap/root_server.h"
#include "tutti/error.h"

namespace tutti {

// This rank cannot take part in a meeting, because of a trouble of its own: those who wait for it get the reason at
// once, through the root. `process`: null where it has no control thread and can have none. `own_root`: the root of
// this process, or null; that of rank 0 is opened for it then.
// Blocks until everybody has been told, for five seconds at most, and not beyond the deadline. Throws nothing: what
// this rank throws is the first cause.
void complain(std::shared_ptr<Process> process, const Membership& given, const Config& config, const Error& error,
              RootServer* own_root, Deadline deadline) noexcept;

}  // namespace tutti
