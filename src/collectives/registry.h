#pragma once

#include <span>
#include <string_view>

#include "schedule/algorithm.h"

namespace tutti {

// Every algorithm there is, grouped by collective, in a fixed order that all ranks share.
std::span<const Algorithm> algorithms();
// Null when there is none of that name for that collective.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace tutti
