#include "collectives/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/rank_limit.h"
#include "base/text.h"
#include "base/utf8.h"
#include "collectives/registry.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 4;  // what a tuning file nests is 3 levels deep
constexpr std::size_t kLongestText = 64;
constexpr double kLeast = 1e-3;
constexpr double kMost = 1e9;
constexpr double kMostBytesOfACall = 1e15;

std::string shortened(const std::string& text) {
  const std::string shown = printable(cut_text(text, kLongestText));
  return text.size() <= kLongestText ? shown : shown + "…";
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::kInvalidSetting,
                fmt::format("tuning file {}: {}. Make a new one with `tutti tune -o FILE`, or leave out "
                            "TUTTI_TUNING_FILE",
                            file_, why));
  }

  // Every field must be one of these: a name that is misspelt would tune nothing.
  void only(const Json& object, const std::string& where, std::initializer_list<std::string_view> names) const {
    if (!object.is_object()) fail(fmt::format("{} must be an object", where));
    for (const auto& [name, value] : object.items()) {
      if (std::ranges::find(names, name) != names.end()) continue;
      fail(fmt::format("{} has no field \"{}\": it takes {}", where, shortened(name), fmt::join(names, ", ")));
    }
  }
  std::optional<double> number(const Json& object, const std::string& where, const char* name) const {
    const auto found = object.find(name);
    if (found == object.end()) return std::nullopt;
    const double value = found->is_number() ? found->get<double>() : 0;
    if (value >= kLeast && value <= kMost) return value;
    fail(
        fmt::format("{}{}{} must be a number from {:g} to {:g}", where, where.empty() ? "" : ".", name, kLeast, kMost));
  }
  double whole(const Json& object, const std::string& where, const char* name, double least, double most) const {
    const auto found = object.find(name);
    const double value = found != object.end() && found->is_number_integer() ? found->get<double>() : -1;
    if (value >= least && value <= most) return value;
    fail(fmt::format("{}.{} must be a whole number from {:.0f} to {:.0f}", where, name, least, most));
  }
  std::string text(const Json& object, const std::string& where, const char* name) const {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_string()) fail(fmt::format("{}.{} must be a text", where, name));
    return found->get<std::string>();
  }

 private:
  std::string_view file_;
};

Json parse_json(const Reader& reader, std::string_view text) {
  if (text.size() > Tuning::kMostBytes) {
    reader.fail(fmt::format("it has more than {} bytes", Tuning::kMostBytes));
  }
  bool deep = false;
  const auto watch = [&deep](int depth, Json::parse_event_t, Json&) {
    deep |= depth > kDeepest;
    return !deep;
  };
  Json json = Json::parse(text.begin(), text.end(), watch, false);
  if (deep || json.is_discarded()) reader.fail("it is no JSON");
  return json;
}

Tuning::Link parse_link(const Reader& reader, const Json& object, const std::string& where) {
  reader.only(object, where, {"latency_ns", "message_ns", "bytes_per_ns"});
  return {reader.number(object, where, "latency_ns"), reader.number(object, where, "message_ns"),
          reader.number(object, where, "bytes_per_ns")};
}

void parse_links(const Reader& reader, const Json& object, Tuning& tuning) {
  reader.only(object, "links", {"near", "far", "numa", "socket", "remote"});
  for (int i = 0; i < kLinkClasses; ++i) {
    const std::string class_name(name(static_cast<LinkClass>(i)));
    const auto found = object.find(class_name);
    if (found == object.end()) continue;
    tuning.links[static_cast<std::size_t>(i)] = parse_link(reader, *found, "links." + class_name);
  }
  if (const auto found = object.find("remote"); found != object.end()) {
    tuning.remote = parse_link(reader, *found, "links.remote");
  }
}

Collective parse_collective(const Reader& reader, const std::string& text, const std::string& where) {
  std::string known;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (name(collective) == text) return collective;
    known += fmt::format("{}{}", c > 0 ? ", " : "", name(collective));
  }
  reader.fail(fmt::format("{}.collective must be one of {}, not \"{}\"", where, known, shortened(text)));
}

Tuning::Choice parse_choice(const Reader& reader, const Json& object, const std::string& where) {
  reader.only(object, where, {"collective", "ranks", "hosts", "from_bytes", "algorithm"});
  Tuning::Choice choice;
  choice.collective = parse_collective(reader, reader.text(object, where, "collective"), where);
  choice.ranks = static_cast<int>(reader.whole(object, where, "ranks", 1, kMaxRanks));
  choice.hosts = static_cast<int>(reader.whole(object, where, "hosts", 1, choice.ranks));
  choice.from_bytes = static_cast<std::size_t>(reader.whole(object, where, "from_bytes", 0, kMostBytesOfACall));
  choice.algorithm = reader.text(object, where, "algorithm");
  if (find_algorithm(choice.collective, choice.algorithm) != nullptr) return choice;
  std::string known;
  for (const Algorithm& row : algorithms()) {
    if (row.collective == choice.collective) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  reader.fail(fmt::format("{}.algorithm must be one of {}, not \"{}\"", where, known, shortened(choice.algorithm)));
}

void parse_choices(const Reader& reader, const Json& list, Tuning& tuning) {
  if (!list.is_array() || list.size() > Tuning::kMostChoices) {
    reader.fail(fmt::format("choices must be a list of at most {}", Tuning::kMostChoices));
  }
  for (const Json& entry : list) {
    tuning.choices.push_back(parse_choice(reader, entry, fmt::format("choices[{}]", tuning.choices.size())));
  }
  const auto key = [](const Tuning::Choice& c) { return std::tuple(c.collective, c.ranks, c.hosts, c.from_bytes); };
  std::ranges::sort(tuning.choices, {}, key);
  const auto twice = std::ranges::adjacent_find(tuning.choices, {}, key);
  if (twice == tuning.choices.end()) return;
  reader.fail(fmt::format("choices has two for {} of {} on {} from {} bytes", name(twice->collective),
                          counted(static_cast<std::uint64_t>(twice->ranks), "rank"),
                          counted(static_cast<std::uint64_t>(twice->hosts), "host"), twice->from_bytes));
}

}  // namespace

Tuning parse_tuning(std::string_view file, std::string_view text) {
  const Reader reader(file);
  const Json json = parse_json(reader, text);
  if (!json.is_object() || !json.contains("tutti_tuning")) {
    reader.fail("it is no tuning file: the field tutti_tuning with the number of its format is missing");
  }
  if (json["tutti_tuning"] != Tuning::kFormat) {
    reader.fail(fmt::format("tutti_tuning must be {}, the format that this version reads", Tuning::kFormat));
  }
  reader.only(
      json, "it",
      {"tutti_tuning", "machine", "links", "step_ns", "copied_bytes_per_ns", "reduced_bytes_per_ns", "choices"});
  Tuning tuning;
  tuning.file = file;
  tuning.hash = std::max<std::uint64_t>(hash_of(text), 1);  // 0 means none
  if (const auto machine = json.find("machine"); machine != json.end() && !machine->is_string()) {
    reader.fail("machine must be a text");
  }
  if (const auto links = json.find("links"); links != json.end()) parse_links(reader, *links, tuning);
  tuning.step_ns = reader.number(json, "", "step_ns");
  tuning.copied_bytes_per_ns = reader.number(json, "", "copied_bytes_per_ns");
  tuning.reduced_bytes_per_ns = reader.number(json, "", "reduced_bytes_per_ns");
  if (const auto choices = json.find("choices"); choices != json.end()) parse_choices(reader, *choices, tuning);
  return tuning;
}

Tuning load_tuning(const std::string& file) {
  if (file.empty()) return {};
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::string text(Tuning::kMostBytes + 1, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream && stream.gcount() == 0) {
    const int reason = errno;
    Reader(file).fail(reason == 0 ? std::string("it is empty")
                                  : fmt::format("it cannot be read: {}", std::strerror(reason)));
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return parse_tuning(file, text);
}

}  // namespace tutti
