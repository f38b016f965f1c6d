#include "perf/format.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "perf/number.h"

namespace tutti::perf {

std::string fit(double value, int width) {
  for (int decimals = 2; decimals >= 0; --decimals) {
    const std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  const std::string text = fmt::format("{:{}.1e}", value, width);
  return text.size() <= static_cast<std::size_t>(width) ? text : fmt::format("{:{}.0e}", value, width);
}

std::string memory_text(double bytes) {
  const char* unit = "B";
  for (const char* larger : {"KB", "MB", "GB"}) {
    if (std::fabs(bytes) < 1024.0) break;
    bytes /= 1024.0;
    unit = larger;
  }
  const int decimals = std::fabs(bytes) < 10.0 ? 2 : std::fabs(bytes) < 100.0 ? 1 : 0;
  return fmt::format("{:.{}f} {}", bytes, decimals, unit);
}

std::string now_text() { return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr))); }

std::string describe(const Mismatch& mismatch, DataType type) {
  const char* phase = mismatch.phase == Phase::kCheck        ? "check"
                      : mismatch.phase == Phase::kBackToBack ? "iteration"
                                                             : "single call";
  const std::string where = fmt::format("{} {}, rank {}", phase, mismatch.iteration, mismatch.rank);
  if (mismatch.kind == Mismatch::Kind::kOutside) {
    return fmt::format("{}: bytes {} the output were overwritten", where, mismatch.element == 0 ? "before" : "after");
  }
  const char* kind = mismatch.kind == Mismatch::Kind::kZero    ? ": zero, never written"
                     : mismatch.kind == Mismatch::Kind::kStale ? ": stale, the previous call's value"
                                                               : "";
  return fmt::format("{}, element {}: got {}, want {}{}", where, mismatch.element, text(mismatch.got, type),
                     text(mismatch.want, type), kind);
}

}  // namespace tutti::perf
