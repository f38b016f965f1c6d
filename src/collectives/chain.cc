#include "collectives/chain.h"

#include <algorithm>

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// Rounds run behind each other; the first one passes all links before the last rank has anything.
void flow(Cost& cost) {
  for (Cost::Link* link : {&cost.local, &cost.remote}) {
    link->fill = std::max(link->hops - 1, 0.0);
    link->messages = link->hops > 0 ? 2 : 0;
  }
  cost.flows = true;
}

Cost broadcast_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.along_ring(cost, traffic.ranks - 1, bytes);
  flow(cost);
  cost.steps = 2;
  cost.copied_bytes = bytes;
  return cost;
}

Cost reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.along_ring(cost, traffic.ranks - 1, bytes);
  flow(cost);
  cost.steps = 1;
  cost.copied_bytes = bytes;
  cost.reduced_bytes = 2 * bytes;
  return cost;
}

}  // namespace

Algorithm chain_broadcast() {
  return make_row<ChainBroadcast>("chain", Collective::kBroadcast, {kAlways, single_chunk, broadcast_cost});
}
Algorithm chain_reduce() {
  return make_row<ChainReduce>("chain", Collective::kReduce, {kAlways, single_chunk, reduce_cost});
}

}  // namespace tutti
