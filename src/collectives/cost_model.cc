#include "collectives/cost_model.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

constexpr double kInlineBytes = 96;      // that travel in a line of shared memory
constexpr double kTurnOfRank_ns = 2000;  // with what it does before it waits

}  // namespace

Cost cost_of(const Algorithm& algorithm, const Layout& layout, double bytes) {
  const Layout parts = as_groups(layout);
  Cost cost = algorithm.cost(parts, bytes);
  if (parts.inside_host) cost.across = std::exchange(cost.remote, {});
  return cost;
}

double turn_ns(int ranks_per_thread) { return ranks_per_thread > 1 ? kTurnOfRank_ns * ranks_per_thread : 0; }

Prediction predict(const Cost& cost, const Cut& cut, const CostParameters& parameters) {
  const double passes = cost.flows ? 1 : std::max(cut.rounds / cut.channels, 1.0);
  const auto transfer = [&](const Cost::Link& link, const LinkParameters& kind) {
    return (link.fill * cut.chunk_bytes + link.bytes) / kind.bytes_per_ns;
  };
  // What lies in a slot comes a line later than the line that says so.
  const double lines = cut.chunk_bytes > kInlineBytes ? 2 : 1;
  Prediction prediction;
  prediction.latency = passes * ((cost.local.hops + cost.across.hops) * parameters.turn_ns +
                                 cost.local.hops * lines * parameters.local.latency_ns +
                                 cost.across.hops * lines * parameters.across.latency_ns +
                                 cost.remote.hops * parameters.remote.latency_ns);
  prediction.handling =
      cut.rounds *
      (cost.local.messages * parameters.local.message_ns + cost.across.messages * parameters.across.message_ns +
       cost.remote.messages * parameters.remote.message_ns + cost.steps * parameters.step_ns);
  prediction.local_bytes = transfer(cost.local, parameters.local);
  prediction.across_bytes = transfer(cost.across, parameters.across);
  prediction.remote_bytes = transfer(cost.remote, parameters.remote);
  prediction.copies = cost.copied_bytes / parameters.copied_bytes_per_ns;
  prediction.reductions = cost.reduced_bytes / parameters.reduced_bytes_per_ns;
  return prediction;
}

}  // namespace tutti
