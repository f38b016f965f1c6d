#include "collectives/chain.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

Cost broadcast_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.along_ring(cost, traffic.ranks - 1, bytes);
  cost.steps = 2;
  cost.copied_bytes = 2 * bytes;
  return cost;
}

Cost reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.along_ring(cost, traffic.ranks - 1, bytes);
  cost.steps = 2;
  cost.reduced_bytes = 2 * bytes;
  return cost;
}

}  // namespace

Algorithm chain_broadcast() {
  return make_row<ChainBroadcast>("chain", Collective::kBroadcast, {always, single_chunk, broadcast_cost});
}
Algorithm chain_reduce() {
  return make_row<ChainReduce>("chain", Collective::kReduce, {always, single_chunk, reduce_cost});
}

}  // namespace tutti
