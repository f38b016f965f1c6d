#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "base/clock.h"
#include "base/config.h"

namespace tutti {

// Until when all ranks must have met, as TUTTI_MEET_TIMEOUT says from now on; 0: there is no limit.
inline Deadline meeting_deadline(const Config& config) {
  const std::chrono::milliseconds limit = config.duration(Setting::kMeetTimeout);
  return deadline_after(limit.count() > 0 ? limit : kForever);
}

// How a rank tells the root how long it is still willing to wait; the longest that it can tell is without a limit.
inline constexpr std::uint32_t kEndlessPatience = std::numeric_limits<std::uint32_t>::max();
inline std::uint32_t patience_until(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left.count(), 1, kEndlessPatience));
}

// When a rank that waits asks why, so that a line says it within `warning` (TUTTI_STALL_WARNING) also where somebody
// does not answer, and again within twice that time, four times … `lines`: that were written before.
constexpr std::chrono::milliseconds ask_after(std::chrono::milliseconds warning, int lines) {
  constexpr std::chrono::milliseconds kLead{1300};
  constexpr int kMostDoublings = 20;
  const std::chrono::milliseconds line = warning * (1 << std::min(lines, kMostDoublings));
  return std::max(line / 2, line - kLead);
}

}  // namespace tutti
