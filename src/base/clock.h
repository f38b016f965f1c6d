#pragma once

#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

}  // namespace tutti
