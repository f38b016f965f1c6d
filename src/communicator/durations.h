#pragma once

#include <chrono>

namespace tutti {

// Of one that a caller gives: throws Error(kInvalidArgument) when it is negative. what: "Options::timeout" …;
// otherwise: what can be given instead, "0 is no limit".
void check_duration(std::chrono::milliseconds duration, const char* what, const char* otherwise);

}  // namespace tutti
