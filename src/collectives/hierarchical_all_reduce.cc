#include "collectives/hierarchical_all_reduce.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// All slices of others leave before a rank can combine its own; the same holds for the chunks of a slice along a rail,
// where peers then wait for each other as in two_shot.
Chunking chunking(const Layout& layout) {
  const HostView view(layout);
  const bool even = view.rails * view.hosts == layout.ranks;
  const int slices = even ? view.rails - 1 : view.rails;
  Chunking chunking;
  chunking.chunks = view.rails * view.hosts;
  chunking.slot_chunks = (slices > 1 ? slices : 1) * view.hosts;
  chunking.window = 2;
  return chunking;
}

Cost all_reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double slice = bytes / traffic.smallest;
  Cost cost;
  if (traffic.largest > 1) {
    cost.local = {2, 4 * traffic.local_peers, 2 * traffic.local_peers * slice};
    cost.copied_bytes = 2 * bytes;
    cost.reduced_bytes = traffic.largest * slice;
  }
  cost.remote = {2, 4 * (traffic.hosts - 1), 2 * bytes * traffic.rail_share * (traffic.hosts - 1) / traffic.hosts};
  cost.steps = 2 * traffic.smallest + 2 * traffic.hosts;
  cost.copied_bytes += slice;
  cost.reduced_bytes += slice;
  return cost;
}

}  // namespace

Algorithm hierarchical_all_reduce() {
  return make_row<HierarchicalAllReduce>("hierarchical", Collective::kAllReduce,
                                         {kSeveralHosts, chunking, all_reduce_cost});
}

}  // namespace tutti
