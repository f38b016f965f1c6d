#include "doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/rank_limit.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tutti/error.h"

namespace tutti::doctor {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr int kDeepest = 8;  // what a report nests is 4 levels deep
constexpr std::size_t kMostOperations = 4096;
constexpr std::size_t kLongestText = 2048;

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", file_, why));
  }

  const Json* find(const Json& object, const char* name) const {
    if (!object.is_object()) fail("it has another value where an object belongs");
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }
  const Json& get(const Json& object, const char* name) const {
    const Json* found = find(object, name);
    if (found == nullptr) fail(fmt::format("\"{}\" is missing: it is no report of this version of tutti", name));
    return *found;
  }
  std::string text(const Json& value, const char* name) const {
    if (!value.is_string()) fail(fmt::format("\"{}\" is no text", name));
    return printable(cut_text(value.get_ref<const std::string&>(), kLongestText));
  }
  std::string text_of(const Json& object, const char* name) const { return text(get(object, name), name); }
  std::int64_t integer(const Json& value, const char* name, std::int64_t low, std::int64_t high) const {
    if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() < INT64_MAX)) {
      const auto number = value.get<std::int64_t>();
      if (low <= number && number <= high) return number;
    }
    fail(fmt::format("\"{}\" is no whole number from {} to {}", name, low, high));
  }
  std::int64_t integer_of(const Json& object, const char* name, std::int64_t low, std::int64_t high) const {
    return integer(get(object, name), name, low, high);
  }
  std::int64_t integer_or(const Json& object, const char* name, std::int64_t low, std::int64_t high,
                          std::int64_t fallback) const {
    const Json* found = find(object, name);
    return found == nullptr ? fallback : integer(*found, name, low, high);
  }
  double real_of(const Json& object, const char* name) const {
    const Json& value = get(object, name);
    if (!value.is_number()) fail(fmt::format("\"{}\" is no number", name));
    return value.get<double>();
  }
  const Json& array_of(const Json& object, const char* name, std::size_t most) const {
    const Json& value = get(object, name);
    if (!value.is_array() || value.size() > most) fail(fmt::format("\"{}\" is no list of at most {}", name, most));
    return value;
  }

 private:
  std::string_view file_;
};

Json parse_json(const Reader& reader, std::string_view bytes) {
  if (bytes.size() > kLargestFile) reader.fail("it is too large for a report");
  bool deep = false;
  const Json::parser_callback_t watch = [&deep](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > kDeepest;
    return !deep;
  };
  Json json = Json::parse(bytes.begin(), bytes.end(), watch, false);
  if (json.is_discarded() || deep) reader.fail("it is no whole JSON text: empty, cut off, or something else");
  if (!json.is_object() || !json.contains("tutti_report")) reader.fail("it is no report that tutti wrote");
  return json;
}

Operation parse_operation(const Reader& reader, const Json& json, int ranks) {
  Operation operation;
  operation.sequence = static_cast<std::uint64_t>(reader.integer_or(json, "sequence", 1, INT64_MAX - 1, 0));
  operation.what = reader.text_of(json, "what");
  operation.phase = reader.text_of(json, "phase");
  if (operation.sequence > 0) {
    operation.signature = reader.text_of(json, "signature");
  } else {
    operation.peer = static_cast<int>(reader.integer_of(json, "peer", -1, ranks - 1));
  }
  operation.waits_for = static_cast<int>(reader.integer_or(json, "waits_for", 0, ranks - 1, -1));
  operation.waited_seconds = static_cast<double>(reader.integer_or(json, "waited_us", 0, INT64_MAX - 1, 0)) * 1e-6;
  return operation;
}

}  // namespace

std::uint64_t Report::last_issued() const {
  std::uint64_t last = 0;
  for (const Operation& operation : operations) last = std::max(last, operation.sequence);
  return last;
}

Report parse_report(std::string_view file, std::string_view bytes) {
  const Reader reader(file);
  const Json json = parse_json(reader, bytes);
  if (const auto format = reader.integer_of(json, "tutti_report", 1, INT32_MAX); format != kFormat) {
    reader.fail(fmt::format("it has format {}, and this doctor knows format {}", format, kFormat));
  }
  Report report;
  report.file = file;
  const Json& communicator = reader.get(json, "communicator");
  report.name = reader.text_of(communicator, "name");
  report.id = reader.text_of(communicator, "id");
  report.ranks = static_cast<int>(reader.integer_of(json, "ranks", 1, kMaxRanks));
  report.rank = static_cast<int>(reader.integer_of(json, "rank", 0, report.ranks - 1));
  report.host = reader.text_of(json, "host");
  report.pid = static_cast<long>(reader.integer_of(json, "pid", 0, INT32_MAX));
  report.pid_namespace = static_cast<std::uint64_t>(reader.integer_or(json, "pid_namespace", 0, INT64_MAX - 1, 0));
  report.written = reader.real_of(json, "written");
  report.failed = reader.text_of(json, "state") == "failed";
  if (report.failed) {
    const Json& failure = reader.get(json, "failure");
    report.failure_code = reader.text_of(failure, "code");
    report.failure_reason = reader.text_of(failure, "reason");
    report.failure_peer = static_cast<int>(reader.integer_of(failure, "peer", -1, report.ranks - 1));
  }
  if (const Json* stall = reader.find(json, "stall")) report.stall = reader.text(*stall, "stall");
  for (const Json& entry : reader.array_of(json, "left", static_cast<std::size_t>(report.ranks))) {
    const auto rank = static_cast<int>(reader.integer_of(entry, "rank", 0, report.ranks - 1));
    report.left[rank] = static_cast<std::uint64_t>(reader.integer_of(entry, "after", 0, INT64_MAX - 1));
  }
  for (const Json& entry : reader.array_of(json, "members", static_cast<std::size_t>(report.ranks))) {
    report.members.push_back(reader.text(entry, "members"));
  }
  const Json& statistics = reader.get(json, "statistics");
  for (const Json& entry : reader.array_of(statistics, "waited_for", static_cast<std::size_t>(report.ranks))) {
    const auto rank = static_cast<int>(reader.integer_of(entry, "rank", 0, report.ranks - 1));
    report.waited_for[rank] = {static_cast<std::uint64_t>(reader.integer_of(entry, "calls", 0, INT64_MAX - 1)),
                               reader.real_of(entry, "seconds")};
  }
  for (const Json& entry : reader.array_of(json, "operations", kMostOperations)) {
    report.operations.push_back(parse_operation(reader, entry, report.ranks));
  }
  return report;
}

}  // namespace tutti::doctor
