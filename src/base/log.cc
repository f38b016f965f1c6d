#include "base/log.h"

#include <strings.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>

#include "base/log_level.h"
#include "base/standard_error.h"
#include "base/utf8.h"

namespace tutti {
namespace {

LogLevel level_from_environment() {
  for (const char* variable : {"TUTTI_DEBUG", "NCCL_DEBUG"}) {
    const char* text = std::getenv(variable);
    if (text != nullptr && *text != '\0') {
      // A value that means nothing is reported where the settings are read; logging itself must not fail.
      return parse_log_level(text).value_or(LogLevel::kWarn);
    }
  }
  return LogLevel::kWarn;
}

std::atomic<LogLevel>& current_level() {
  static std::atomic<LogLevel> level{level_from_environment()};
  return level;
}

const char* label(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "ERROR";
    case LogLevel::kWarn:
      return "WARN";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kDebug:
      return "DEBUG";
  }
  return "?";
}

std::atomic<unsigned> lost{0};  // lines that standard error did not take, until that is said

std::string host_name() {
  char text[256] = {};
  return ::gethostname(text, sizeof(text) - 1) == 0 ? text : "unknown";
}

// UTC, which ranks of several hosts and processes with different time zones have in common. Calculated without the C
// library, whose lock a thread of the parent may have held when this process was forked.
std::string time_of_day() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", int{date.year()}, unsigned{date.month()},
                     unsigned{date.day()}, time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view text) {
  struct Row {
    const char* name;
    LogLevel level;
  };
  // The second half are NCCL's words.
  static constexpr Row kRows[] = {
      {"error", LogLevel::kError},  {"warn", LogLevel::kWarn},   {"info", LogLevel::kInfo},
      {"debug", LogLevel::kDebug},  {"none", LogLevel::kError},  {"abort", LogLevel::kWarn},
      {"version", LogLevel::kWarn}, {"trace", LogLevel::kDebug},
  };
  for (const Row& row : kRows) {
    if (text.size() == std::string_view(row.name).size() && ::strncasecmp(text.data(), row.name, text.size()) == 0) {
      return row.level;
    }
  }
  return std::nullopt;
}

void set_log_level(LogLevel level) { current_level().store(level, std::memory_order_relaxed); }

bool log_enabled(LogLevel level) { return level <= current_level().load(std::memory_order_relaxed); }

void log_line(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) return;
  const int saved_errno = errno;
  static const std::string host = host_name();
  // One write per line, so that lines of several ranks on one terminal do not mix. The process id is asked for each
  // time because a forked child logs too.
  // What peers sent may be quoted in a message; it must not steer the terminal or fake a second line.
  const auto line_of = [](LogLevel its_level, std::string_view its_text) {
    return printable(fmt::format("tutti {} {}:{} {} {}", time_of_day(), host, ::getpid(), label(its_level), its_text)) +
           "\n";
  };
  std::string lines = line_of(level, text);
  const unsigned before = lost.exchange(0, std::memory_order_relaxed);
  if (before > 0) {
    // It may have been cut off in the middle.
    lines = "\n" +
            line_of(LogLevel::kWarn, fmt::format("{} {} of this log {} lost: standard error took no more", before,
                                                 before == 1 ? "line" : "lines", before == 1 ? "was" : "were")) +
            lines;
  }
  if (!write_to_standard_error(lines)) lost.fetch_add(before + 1, std::memory_order_relaxed);
  errno = saved_errno;
}

}  // namespace tutti
