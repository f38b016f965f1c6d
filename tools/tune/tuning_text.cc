#include "tune/tuning_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tutti::tune {
namespace {

constexpr double kHardlySlower = 1.03;

}  // namespace

std::vector<Tuning::Choice> choices(Collective collective, int ranks, int hosts,
                                    const std::vector<std::string>& algorithms, const std::vector<Measured>& sizes) {
  std::vector<Tuning::Choice> result;
  std::size_t taken = 0;
  for (const Measured& size : sizes) {
    const auto fastest = std::ranges::min_element(size.ns);
    const auto best = static_cast<std::size_t>(fastest - size.ns.begin());
    if (!result.empty() && size.ns[taken] <= kHardlySlower * *fastest) continue;
    taken = best;
    const std::size_t from = result.empty() ? 0 : size.bytes;
    result.push_back({collective, ranks, hosts, from, algorithms[best]});
  }
  return result;
}

std::string tuning_text(const std::string& machine, const std::vector<FittedParameter>& probed,
                        const std::vector<Tuning::Choice>& choices) {
  nlohmann::ordered_json document = {{"tutti_tuning", Tuning::kFormat}, {"machine", machine}};
  for (const FittedParameter& parameter : probed) {
    if (parameter.origin != Origin::kProbed) continue;
    std::string pointer = "/" + parameter.name;
    std::ranges::replace(pointer, '.', '/');
    document[nlohmann::ordered_json::json_pointer(pointer)] = parameter.value;
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Tuning::Choice& choice : choices) {
    rows.push_back({{"collective", name(choice.collective)},
                    {"ranks", choice.ranks},
                    {"hosts", choice.hosts},
                    {"from_bytes", choice.from_bytes},
                    {"algorithm", choice.algorithm}});
  }
  document["choices"] = rows;
  return document.dump(1) + "\n";
}

}  // namespace tutti::tune
