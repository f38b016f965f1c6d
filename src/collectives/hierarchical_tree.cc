#include "collectives/hierarchical_tree.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

Chunking reduce_chunking(const Layout&) {
  Chunking chunking;
  chunking.scratch_chunks = 1;
  return chunking;
}

// log2(hosts) levels between leaders, one hop inside the host.
Cost tree_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double levels = ceil_log2(layout.hosts);
  Cost cost;
  cost.remote = {levels, levels, levels * bytes};
  if (traffic.largest > 1) cost.local = {1, traffic.local_peers, bytes};
  cost.flows = true;
  cost.steps = levels + 1;
  return cost;
}

Cost broadcast_cost(const Layout& layout, double bytes) {
  Cost cost = tree_cost(layout, bytes);
  cost.copied_bytes = (cost.remote.hops + cost.local.hops) * bytes;
  return cost;
}

Cost reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost = tree_cost(layout, bytes);
  cost.local.bytes = traffic.local_peers * bytes;
  cost.copied_bytes = bytes;
  cost.reduced_bytes = (traffic.largest + 2 * cost.remote.hops) * bytes;
  return cost;
}

Cost barrier_cost(const Layout& layout, double) {
  Cost cost = tree_cost(layout, 0);
  cost.local.hops *= 2;
  cost.local.messages *= 2;
  cost.remote.messages *= 2;
  cost.flows = false;
  return cost;
}

}  // namespace

Algorithm hierarchical_broadcast() {
  return make_row<HierarchicalBroadcast>("hierarchical", Collective::kBroadcast,
                                         {kSeveralHosts, single_chunk, broadcast_cost});
}
Algorithm hierarchical_reduce() {
  return make_row<HierarchicalReduce>("hierarchical", Collective::kReduce,
                                      {kSeveralHosts, reduce_chunking, reduce_cost});
}
Algorithm hierarchical_barrier() {
  return make_row<HierarchicalBarrier>("hierarchical", Collective::kBarrier,
                                       {kSeveralHosts, single_chunk, barrier_cost});
}

}  // namespace tutti
