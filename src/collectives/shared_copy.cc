#include "collectives/shared_copy.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

constexpr Condition kPairOfHost{[](const Layout& layout) { return layout.ranks == 2 && layout.hosts == 1; },
                                "two ranks of one host"};

Chunking broadcast_chunking(const Layout&) {
  Chunking chunking;
  chunking.chunks = SharedCopyBroadcast::kChunks;
  chunking.flow = 2;
  return chunking;
}

// The root must hear where the output is before it can write there: a hop more. Half of the copies are made while the
// other half is.
Cost broadcast_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.one_to_all(cost, bytes / 2);
  traffic.one_to_all(cost, bytes / 2);
  cost.flows = true;
  cost.steps = 3;
  cost.copied_bytes = bytes / 2;
  return cost;
}

}  // namespace

Algorithm shared_copy_broadcast() {
  return make_row<SharedCopyBroadcast>("shared_copy", Collective::kBroadcast,
                                       {kPairOfHost, broadcast_chunking, broadcast_cost});
}

}  // namespace tutti
