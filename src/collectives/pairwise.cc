#include "collectives/pairwise.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// n - 1 exchanges one after the other; all ranks of two hosts share the wire between them.
Cost all_to_all_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double block = bytes / traffic.ranks;
  Cost cost;
  traffic.all_pairs(cost, block);
  cost.local.hops = traffic.local_peers;
  cost.remote.hops = traffic.remote_peers;
  cost.steps = 2 * traffic.ranks;
  cost.copied_bytes = bytes;
  return cost;
}

}  // namespace

Algorithm pairwise_all_to_all() {
  return make_row<PairwiseAllToAll>("pairwise", Collective::kAllToAll, {kAlways, single_chunk, all_to_all_cost});
}

}  // namespace tutti
