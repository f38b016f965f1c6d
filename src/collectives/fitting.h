#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/cost_model.h"
#include "collectives/link_model.h"
#include "collectives/tuning.h"

// Where the parameters of the cost model come from: what a tuning file says, else what was measured when the ranks met,
// else what the library believes.
namespace tutti {

enum class Origin : std::uint8_t { kDefault, kProbed, kFile };
std::string_view name(Origin origin);

struct FittedParameter {
  std::string name;  // as in a tuning file: "links.near.latency_ns"
  double value = 0;
  Origin origin = Origin::kDefault;
};

struct Fitted {
  CostParameters parameters;
  std::vector<FittedParameter> origins;  // of each of them
};

// Of links between ranks of one host, those of the slowest class that there is count: who waits for everybody waits for
// it. within: where ranks form groups, the slowest class inside a group. Pure: the same on all ranks that give the
// same.
Fitted fit(const MeasuredHost& host, const Tuning& tuning, std::optional<LinkClass> within = {});

}  // namespace tutti
