#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

// When a rank that waits asks why, so that a line says it within `warning` (TUTTI_STALL_WARNING) also where somebody
// does not answer, and again within twice that time, four times … `lines`: that were written before.
constexpr std::chrono::milliseconds ask_after(std::chrono::milliseconds warning, int lines) {
  constexpr std::chrono::milliseconds kLead{1300};
  constexpr int kMostDoublings = 20;
  const std::chrono::milliseconds line = warning * (1 << std::min(lines, kMostDoublings));
  return std::max(line / 2, line - kLead);
}

}  // namespace tutti
