#include "base/config.h"

#include <fmt/format.h>
#include <signal.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "base/log_level.h"
#include "base/rank_limit.h"
#include "base/text.h"
#include "tutti/error.h"

namespace tutti {
namespace {

enum class Type {
  kText,
  kSecret,   // text that is never shown
  kNames,    // a NameFilter
  kLevel,    // a LogLevel
  kFamily,   // any, ipv4, ipv6
  kFlag,     // 0 or 1
  kInteger,  // low … high
  kBytes,    // the same, with K, M, G (1024); or 0, which leaves it to the library
  kSeconds,  // the same, with a fraction; kept in milliseconds
  kCheck,    // none, memory
  kPorts,    // a port, or first-last; kept as PortRange::pack()
  kSignal,   // USR1, USR2 or none; kept as the signal's number
};

enum class Agreed : bool { kNo, kYes };

struct Row {
  Setting setting;
  const char* name;
  const char* alias;  // NCCL's name; null: none
  Type type;
  const char* fallback;
  std::int64_t low;
  std::int64_t high;
  Agreed agreed;  // must be equal on all ranks
  const char* meaning;
};

constexpr std::int64_t kGigabyte = std::int64_t{1} << 30;
constexpr std::int64_t kDay = 86'400;
constexpr std::size_t kLongestText = 4000;  // some are told to other ranks, in messages of bounded size

// clang-format off
constexpr Row kRows[] = {
    {Setting::kDebug, "TUTTI_DEBUG", "NCCL_DEBUG", Type::kLevel, "warn", 0, 0, Agreed::kNo,
     "what is logged on standard error"},
    {Setting::kRank, "TUTTI_RANK", nullptr, Type::kInteger, "", 0, kMaxRanks - 1, Agreed::kNo,
     "this process's rank when no launcher says so"},
    {Setting::kRanks, "TUTTI_NRANKS", nullptr, Type::kInteger, "", 1, kMaxRanks, Agreed::kNo,
     "number of ranks when no launcher says so"},
    {Setting::kCommId, "TUTTI_COMM_ID", nullptr, Type::kSecret, "", 0, 0, Agreed::kNo,
     "where the ranks meet: a unique id, or host:port of rank 0"},
    {Setting::kPort, "TUTTI_PORT", nullptr, Type::kInteger, "", 1, 65'535, Agreed::kNo,
     "port of rank 0 when TUTTI_COMM_ID does not say"},
    {Setting::kPorts, "TUTTI_PORTS", nullptr, Type::kPorts, "", 1, 65'535, Agreed::kNo,
     "ports that ranks listen on, as a firewall lets them in: first-last"},
    {Setting::kSecret, "TUTTI_SECRET", nullptr, Type::kSecret, "", 0, 0, Agreed::kNo,
     "the job's secret, at least 16 characters"},
    {Setting::kSecretFile, "TUTTI_SECRET_FILE", nullptr, Type::kText, "", 0, 0, Agreed::kNo,
     "a file with the job's secret, readable by its owner only"},
    {Setting::kAllowUnauthenticated, "TUTTI_ALLOW_UNAUTHENTICATED", nullptr, Type::kFlag, "0", 0, 1, Agreed::kNo,
     "meet over several hosts without a secret"},
    {Setting::kSocketIfname, "TUTTI_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", Type::kNames, "", 0, 0, Agreed::kNo,
     "network interfaces by prefix; = before the list: exact; ^ before it: all others"},
    {Setting::kSocketFamily, "TUTTI_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", Type::kFamily, "any", 0, 0, Agreed::kNo,
     "which addresses are used"},
    {Setting::kHostId, "TUTTI_HOSTID", "NCCL_HOSTID", Type::kText, "", 0, 0, Agreed::kNo,
     "ranks with the same id count as being on one host"},
    {Setting::kShmDisable, "TUTTI_SHM_DISABLE", "NCCL_SHM_DISABLE", Type::kFlag, "0", 0, 1, Agreed::kNo,
     "no shared memory between ranks of one host"},
    {Setting::kShmDir, "TUTTI_SHM_DIR", nullptr, Type::kText, "/dev/shm", 0, 0, Agreed::kNo,
     "where ranks of one host find each other's memory when they share no network namespace"},
    {Setting::kMeetTimeout, "TUTTI_MEET_TIMEOUT", nullptr, Type::kSeconds, "600", 0, kDay, Agreed::kNo,
     "seconds until all ranks must have met; 0: no limit"},
    {Setting::kSilence, "TUTTI_SILENCE", nullptr, Type::kSeconds, "30", 1, kDay, Agreed::kNo,
     "seconds without a heartbeat until a host counts as gone"},
    {Setting::kStallWarning, "TUTTI_STALL_WARNING", nullptr, Type::kSeconds, "10", 0, kDay, Agreed::kNo,
     "seconds that a call waits before a line says who keeps it waiting; 0: never"},
    {Setting::kDumpDir, "TUTTI_DUMP_DIR", nullptr, Type::kText, "", 0, 0, Agreed::kNo,
     "directory in which a communicator that fails writes its last operations"},
    {Setting::kDumpSignal, "TUTTI_DUMP_SIGNAL", nullptr, Type::kSignal, "none", 0, 0, Agreed::kNo,
     "signal at which every communicator of a process writes its last operations"},
    {Setting::kAlgorithm, "TUTTI_ALGO", nullptr, Type::kText, "", 0, 0, Agreed::kYes,
     "algorithm of every collective, or collective:name;collective:name"},
    {Setting::kChunkBytes, "TUTTI_CHUNK_BYTES", nullptr, Type::kBytes, "0", 256, kGigabyte, Agreed::kYes,
     "largest chunk of a message; 0: chosen"},
    {Setting::kChannels, "TUTTI_CHANNELS", nullptr, Type::kInteger, "0", 0, 4, Agreed::kYes,
     "parallel channels of a collective; 0: chosen"},
    {Setting::kRingBytes, "TUTTI_RING_BYTES", nullptr, Type::kBytes, "0", 4096, kGigabyte, Agreed::kYes,
     "slot ring of a rank and channel; 0: twice the L2 cache"},
    {Setting::kTuningFile, "TUTTI_TUNING_FILE", nullptr, Type::kText, "", 0, 0, Agreed::kNo,
     "a file of `tutti tune`, with the same contents on all ranks"},
    {Setting::kCheck, "TUTTI_CHECK", nullptr, Type::kCheck, "none", 0, 0, Agreed::kNo,
     "memory: every call asks the kernel whether registered memory is still there"},
};
// clang-format on

constexpr bool rows_in_order() {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<std::size_t>(kRows[i].setting) != i) return false;
  }
  return true;
}
static_assert(rows_in_order(), "a row's place is its setting's number");
static_assert(std::size(kRows) == kSettings, "every setting has a row");

std::size_t index_of(Setting setting) { return static_cast<std::size_t>(setting); }

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [text](std::string_view word) {
    return text.size() == word.size() && ::strncasecmp(text.data(), word.data(), word.size()) == 0;
  });
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  std::int64_t unit = 1;
  if (text.ends_with('k') || text.ends_with('K')) unit = std::int64_t{1} << 10;
  if (text.ends_with('m') || text.ends_with('M')) unit = std::int64_t{1} << 20;
  if (text.ends_with('g') || text.ends_with('G')) unit = std::int64_t{1} << 30;
  if (unit != 1) text.remove_suffix(1);
  const auto value = whole_number<std::int64_t>(text);
  if (!value || *value < 0 || *value > std::numeric_limits<std::int64_t>::max() / unit) return std::nullopt;
  return *value * unit;
}

std::optional<PortRange> parse_ports(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = whole_number<std::uint16_t>(trimmed(text.substr(0, dash)));
  const auto last =
      dash == std::string_view::npos ? first : whole_number<std::uint16_t>(trimmed(text.substr(dash + 1)));
  if (!first || !last || *first == 0 || *last < *first) return std::nullopt;
  return PortRange{*first, *last};
}

struct Parsed {
  std::string text;  // in its standard spelling
  std::int64_t number = 0;
};

// Empty when the text is no value of the row.
std::optional<Parsed> parse(const Row& row, std::string_view given) {
  const std::string_view text = trimmed(given);
  const auto in_range = [&row](std::int64_t value) { return row.low <= value && value <= row.high; };
  switch (row.type) {
    case Type::kText:
    case Type::kNames:
      if (text.size() > kLongestText) return std::nullopt;
      return Parsed{std::string(text)};
    case Type::kSecret:
      return Parsed{std::string(text)};
    case Type::kLevel: {
      static constexpr std::array kNames = {"error", "warn", "info", "debug"};
      const std::optional<LogLevel> level = parse_log_level(text);
      if (!level) return std::nullopt;
      return Parsed{kNames[static_cast<std::size_t>(*level)], static_cast<std::int64_t>(*level)};
    }
    case Type::kFamily:
      if (is_one_of(text, {"any", "AF_UNSPEC"})) return Parsed{"any"};
      if (is_one_of(text, {"ipv4", "AF_INET"})) return Parsed{"ipv4"};
      if (is_one_of(text, {"ipv6", "AF_INET6"})) return Parsed{"ipv6"};
      return std::nullopt;
    case Type::kCheck:
      if (is_one_of(text, {"none", "0"})) return Parsed{"none"};
      if (is_one_of(text, {"memory"})) return Parsed{"memory", 1};
      return std::nullopt;
    case Type::kFlag:
      if (is_one_of(text, {"1", "true", "yes", "on"})) return Parsed{"1", 1};
      if (is_one_of(text, {"0", "false", "no", "off"})) return Parsed{"0", 0};
      return std::nullopt;
    case Type::kInteger:
    case Type::kBytes: {
      const bool bytes = row.type == Type::kBytes;
      const auto value = bytes ? parse_bytes(text) : whole_number<std::int64_t>(text);
      if (!value || (!in_range(*value) && !(bytes && *value == 0))) return std::nullopt;
      return Parsed{std::to_string(*value), *value};
    }
    case Type::kSeconds: {
      const auto value = whole_number<double>(text);
      if (!value || !(*value >= static_cast<double>(row.low)) || *value > static_cast<double>(row.high)) {
        return std::nullopt;
      }
      return Parsed{std::string(text), std::llround(*value * 1000)};
    }
    case Type::kPorts: {
      const auto range = parse_ports(text);
      if (!range) return std::nullopt;
      return Parsed{fmt::format("{}-{}", range->first, range->last), range->pack()};
    }
    case Type::kSignal:
      if (is_one_of(text, {"USR1", "SIGUSR1"})) return Parsed{"USR1", SIGUSR1};
      if (is_one_of(text, {"USR2", "SIGUSR2"})) return Parsed{"USR2", SIGUSR2};
      if (is_one_of(text, {"none", "0"})) return Parsed{"none", 0};
      return std::nullopt;
  }
  return std::nullopt;
}

std::string allowed(const Row& row) {
  switch (row.type) {
    case Type::kText:
    case Type::kSecret:
    case Type::kNames:
      return fmt::format("text of at most {} characters", kLongestText);
    case Type::kLevel:
      return "error, warn, info or debug";
    case Type::kFamily:
      return "any, ipv4 or ipv6 (AF_INET, AF_INET6)";
    case Type::kCheck:
      return "none or memory";
    case Type::kFlag:
      return "0 or 1 (or no, yes, off, on, false, true)";
    case Type::kInteger:
      return fmt::format("a whole number from {} to {}", row.low, row.high);
    case Type::kBytes:
      return fmt::format("0, or bytes from {} to {}, with K, M or G", row.low, row.high);
    case Type::kSeconds:
      return fmt::format("seconds from {} to {}", row.low, row.high);
    case Type::kPorts:
      return "a port from 1 to 65535, or the first and the last of several: 29500-29599";
    case Type::kSignal:
      return "USR1, USR2 or none";
  }
  return "";
}

}  // namespace

std::vector<std::string_view> setting_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Config::Config() {
  for (const Row& row : kRows) {
    const Parsed fallback = parse(row, row.fallback).value_or(Parsed{});
    values_.push_back({fallback.text, fallback.number, ""});
  }
}

Config Config::from_environment() {
  return from_environment([](const char* variable) { return std::getenv(variable); });
}

Config Config::from_environment(const std::function<const char*(const char*)>& environment) {
  Config config;
  for (const Row& row : kRows) {
    // An empty variable counts as none: that is how scripts clear one.
    const char* own = environment(row.name);
    if (own != nullptr && !trimmed(own).empty()) {
      config.set(row.setting, row.name, own);
      continue;
    }
    const char* alias = row.alias != nullptr ? environment(row.alias) : nullptr;
    if (alias == nullptr || trimmed(alias).empty()) continue;
    if (parse(row, alias)) {
      config.set(row.setting, row.alias, alias);
    } else {
      log_warn("{}={} is not known here and ignored; {} takes {}", row.alias, alias, row.name, allowed(row));
    }
  }
  return config;
}

Config Config::readable(const std::map<std::string, std::string>& overrides) {
  Config config;
  for (const Row& row : kRows) {
    const auto given = overrides.find(row.name);
    const char* const text = given != overrides.end() ? given->second.c_str() : std::getenv(row.name);
    if (text != nullptr && !trimmed(text).empty() && parse(row, text)) config.set(row.setting, row.name, text);
  }
  return config;
}

Config Config::with(const std::map<std::string, std::string>& overrides) const {
  Config config = *this;
  for (const auto& [name, text] : overrides) {
    const auto* row =
        std::ranges::find_if(kRows, [&wanted = name](const Row& candidate) { return wanted == candidate.name; });
    if (row == std::end(kRows)) {
      std::string names;
      for (const Row& known : kRows) names += fmt::format(" {}", known.name);
      throw Error(ErrorCode::kInvalidSetting, fmt::format("{} is no setting; there are:{}", name, names));
    }
    config.set(row->setting, row->name, text);
  }
  return config;
}

void Config::set(Setting setting, const char* name, std::string_view text) {
  const Row& row = kRows[index_of(setting)];
  std::optional<Parsed> parsed = parse(row, text);
  if (!parsed) {
    throw Error(ErrorCode::kInvalidSetting, fmt::format("{}={} is not allowed: {} takes {} ({})", name,
                                                        text.substr(0, 80), name, allowed(row), row.meaning));
  }
  values_[index_of(setting)] = {std::move(parsed->text), parsed->number, name};
}

const std::string& Config::text(Setting setting) const { return values_[index_of(setting)].text; }
std::int64_t Config::integer(Setting setting) const { return values_[index_of(setting)].number; }
bool Config::flag(Setting setting) const { return integer(setting) != 0; }
std::chrono::milliseconds Config::duration(Setting setting) const {
  return std::chrono::milliseconds(integer(setting));
}
bool Config::given(Setting setting) const { return !values_[index_of(setting)].origin.empty(); }
std::string Config::given_name(Setting setting) const {
  return given(setting) ? values_[index_of(setting)].origin : kRows[index_of(setting)].name;
}

std::string Config::describe() const {
  std::string lines;
  for (const Row& row : kRows) {
    const Value& value = values_[index_of(row.setting)];
    const bool hidden = row.type == Type::kSecret && !value.text.empty();
    const std::string origin = value.origin.empty() ? "default" : value.origin;
    lines += fmt::format("{:<28} {:<16} {:<20} {}\n", row.name,
                         hidden               ? "(hidden)"
                         : value.text.empty() ? "-"
                                              : value.text,
                         origin, row.meaning);
  }
  return lines;
}

std::string Config::agreement_text() const {
  std::string text;
  for (const Row& row : kRows) {
    if (row.agreed == Agreed::kNo) continue;
    if (!text.empty()) text += ' ';
    text += fmt::format("{}={}", row.name, values_[index_of(row.setting)].text);
  }
  return text;
}

std::uint64_t Config::agreement_hash() const { return hash_of(agreement_text()); }

}  // namespace tutti
