#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// Longer than any process runs, and far from where the clock's arithmetic ends.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365 * 100);

// When so much time is over. `limit` may be any that a user can give, also the longest there is, which added to a time
// would wrap around: beyond kForever it is kForever, and a negative one is none.
inline Deadline deadline_after(std::chrono::milliseconds limit, Clock::time_point from = Clock::now()) {
  return from + std::clamp(limit, std::chrono::milliseconds(0), kForever);
}

}  // namespace tutti
