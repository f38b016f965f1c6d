// Tuning files: cut, damaged, of another version, or made to mislead. Each is refused with its name or read, and what
// was read is within its limits.
#include <string>

#include "collectives/fitting.h"
#include "collectives/registry.h"
#include "collectives/selector.h"
#include "collectives/tuning.h"
#include "fuzz/input.h"
#include "fuzz/target.h"
#include "schedule/placement.h"
#include "tutti/error.h"

namespace tutti::fuzz {

void run(std::span<const std::byte> bytes) {
  Tuning tuning;
  try {
    tuning = parse_tuning("a file", text_of(bytes));
  } catch (const Error& error) {
    const std::string text = error.what();
    require(error.code() == ErrorCode::kInvalidSetting && text.starts_with("tuning file a file: "),
            "a refusal names the file");
    require(text.size() < 2000, "a refusal is short");
    return;
  }
  require(tuning.hash != 0, "a file is told from none");
  for (const Tuning::Choice& choice : tuning.choices) {
    require(find_algorithm(choice.collective, choice.algorithm) != nullptr, "a choice names an algorithm");
    require(choice.hosts >= 1 && choice.hosts <= choice.ranks, "hosts have ranks");
  }
  SelectorOptions options;
  const Fitted fitted = fit({}, tuning);
  for (const FittedParameter& parameter : fitted.origins) require(parameter.value > 0, "a parameter is positive");
  options.parameters = fitted.parameters;
  options.choices = tuning.choices;
  static const Placement placement(2);
  const Selector selector(placement.layout(0), options);
  const Choice& choice = selector.choose(Collective::kAllReduce, bytes.size());
  require(algorithms()[choice.algorithm].collective == Collective::kAllReduce, "a choice can be run");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> result;
  for (
      const char* text :
      {R"({"tutti_tuning":1})",
       R"({"tutti_tuning":1,"machine":"m","step_ns":1.5,"copied_bytes_per_ns":80,"reduced_bytes_per_ns":70})",
       R"({"tutti_tuning":1,"links":{"near":{"latency_ns":57,"message_ns":15,"bytes_per_ns":40},"remote":{}}})",
       R"({"tutti_tuning":1,"choices":[{"collective":"all_reduce","ranks":2,"hosts":1,"from_bytes":0,)"
       R"("algorithm":"ring"},{"collective":"all_reduce","ranks":2,"hosts":1,"from_bytes":64,"algorithm":"one_shot"}]})",
       R"({"tutti_tuning":2})", R"({"tutti_tuning":1,"links":{"far":{"latency_ns":-1}}})"}) {
    const auto bytes = bytes_of(text);
    result.emplace_back(bytes.begin(), bytes.end());
  }
  return result;
}

}  // namespace tutti::fuzz
