#include "base/setting_advice.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <string_view>

#include "base/log.h"
#include "base/system_error.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::string_view kPrefix = "TUTTI_";
constexpr std::string_view kOfTests = "TUTTI_TEST_";
constexpr std::size_t kLongestName = 64;  // that is worth a comparison
constexpr std::size_t kMostEdits = 3;     // between what was meant and what was typed

// Letters to change, add, leave out or swap with their neighbour.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) edits[i][0] = i;
  std::iota(edits[0].begin(), edits[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits.back().back();
}

std::string nearest_setting(std::string_view name) {
  if (name.size() > kLongestName) return "";
  std::string nearest;
  std::size_t least = kMostEdits + 1;
  for (const std::string_view known : setting_names()) {
    if (const std::size_t edits = edits_between(name, known); edits < least) {
      least = edits;
      nearest = known;
    }
  }
  return nearest;
}

}  // namespace

std::vector<std::string> unknown_settings(const char* const* environment) {
  std::vector<std::string> lines;
  const std::vector<std::string_view> known = setting_names();
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || name.starts_with(kOfTests) || std::ranges::count(known, name) > 0) continue;
    const std::string meant = nearest_setting(name);
    lines.push_back(fmt::format("{} is no setting of tutti and does nothing{}", name.substr(0, kLongestName),
                                meant.empty() ? "" : fmt::format("; {} is one", meant)));
  }
  std::ranges::sort(lines);
  return lines;
}

std::vector<std::string> doubtful_settings(const Config& config, std::span<const InterfaceRecord> here) {
  std::vector<std::string> lines;
  if (const std::string& directory = config.text(Setting::kDumpDir); !directory.empty()) {
    if (::access(directory.c_str(), W_OK | X_OK) != 0) {
      lines.push_back(
          fmt::format("{}={}: {}; no failure can be written there: make it a directory in which this user "
                      "can write",
                      config.given_name(Setting::kDumpDir), directory, errno_text(errno)));
    }
  }
  const InterfaceRules rules = interface_rules(config);
  const bool none = !rules.filter_text.empty() && std::ranges::none_of(here, [&](const InterfaceRecord& record) {
    return rules.filter.matches(record.name);
  });
  if (none) {
    lines.push_back(
        fmt::format("{}={} matches no network interface of this host", rules.filter_origin, rules.filter_text));
  }
  return lines;
}

void warn_of_environment(const Config& environment) {
  static const bool told [[maybe_unused]] = [&] {
    for (const std::string& line : unknown_settings(environ)) log_warn("{}", line);
    warn_of_settings(environment);
    return true;
  }();
}

void warn_of_settings(const Config& config) {
  try {
    for (const std::string& line : doubtful_settings(config, read_interfaces())) log_warn("{}", line);
  } catch (const Error&) {
    // The kernel does not tell its interfaces: whoever needs one will say so.
  }
}

}  // namespace tutti
