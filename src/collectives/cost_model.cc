#include "collectives/cost_model.h"

#include <algorithm>

namespace tutti {

Prediction predict(const Cost& cost, const Cut& cut, const CostParameters& parameters) {
  const double passes = cost.flows ? 1 : std::max(cut.rounds / cut.channels, 1.0);
  const auto transfer = [&](const Cost::Link& link, const LinkParameters& kind) {
    return (link.fill * cut.chunk_bytes + link.bytes) / kind.bytes_per_ns;
  };
  Prediction prediction;
  prediction.latency =
      passes * (cost.local.hops * parameters.local.latency_ns + cost.remote.hops * parameters.remote.latency_ns);
  prediction.handling =
      cut.rounds * (cost.local.messages * parameters.local.message_ns +
                    cost.remote.messages * parameters.remote.message_ns + cost.steps * parameters.step_ns);
  prediction.local_bytes = transfer(cost.local, parameters.local);
  prediction.remote_bytes = transfer(cost.remote, parameters.remote);
  prediction.copies = cost.copied_bytes / parameters.copied_bytes_per_ns;
  prediction.reductions = cost.reduced_bytes / parameters.reduced_bytes_per_ns;
  return prediction;
}

}  // namespace tutti
