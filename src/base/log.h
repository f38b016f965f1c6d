#pragma once

#include <fmt/format.h>

#include <string_view>

namespace tutti {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

// The process's logger: lines on standard error, "tutti 2026-11-30T08:15:10.123Z <host>:<pid> <level> text", by whose
// times those of all ranks can be put in order, as far as their hosts' clocks agree. The level comes from TUTTI_DEBUG
// (default warn). A line never waits for its reader: lines that do not fit are counted, and the next one that fits says
// how many were lost. Any thread.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarn)) log_line(LogLevel::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tutti
