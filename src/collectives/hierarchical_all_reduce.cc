#include "collectives/hierarchical_all_reduce.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// All chunks of a slice leave for other hosts before the first of them can be combined; rail peers then wait for each
// other, as in two_shot.
Chunking chunking(const Layout& layout) {
  const HostView view(layout);
  Chunking chunking;
  chunking.chunks = view.rails * view.hosts;
  chunking.slot_chunks = view.hosts;
  chunking.window = 2;
  return chunking;
}

Cost all_reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double slice = bytes / traffic.smallest;
  Cost cost;
  if (traffic.largest > 1) {
    cost.local.hops = 2;
    cost.local.bytes = 2 * traffic.local_peers * slice;
    cost.copied_bytes = 2 * bytes;
    cost.reduced_bytes = traffic.largest * slice;
  }
  cost.remote.hops = 2;
  cost.remote.bytes = 2 * bytes * (traffic.hosts - 1) / traffic.hosts;
  cost.steps = 2 * traffic.smallest + 4 * traffic.hosts + 2 * traffic.largest;
  cost.copied_bytes += slice;
  cost.reduced_bytes += slice;
  return cost;
}

}  // namespace

Algorithm hierarchical_all_reduce() {
  return make_row<HierarchicalAllReduce>("hierarchical", Collective::kAllReduce,
                                         {several_hosts, chunking, all_reduce_cost});
}

}  // namespace tutti
