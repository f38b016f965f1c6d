#include "collectives/two_shot.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// All slices are sent before the first reduction can start; both ends of a connection then wait for each other in it.
Chunking all_reduce_chunking(const Layout& layout) {
  Chunking chunking;
  chunking.chunks = layout.ranks;
  chunking.slot_chunks = layout.ranks;
  chunking.window = 2;
  return chunking;
}

Chunking reduce_scatter_chunking(const Layout& layout) {
  Chunking chunking;
  if (layout.ranks > 1) chunking.slot_chunks = layout.ranks - 1;
  return chunking;
}

Chunking broadcast_chunking(const Layout& layout) {
  Chunking chunking;
  chunking.chunks = layout.ranks;
  return chunking;
}

// Each rank copies out the slices of others and its own result, reads its slice of everybody and their results.
Cost all_reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.all_pairs(cost, bytes / traffic.ranks);
  traffic.all_pairs(cost, bytes / traffic.ranks);
  cost.steps = 2 * traffic.ranks - 1;
  cost.copied_bytes = bytes;
  cost.reduced_bytes = bytes;
  return cost;
}

Cost reduce_scatter_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.all_pairs(cost, bytes / traffic.ranks);
  cost.steps = traffic.ranks;
  cost.copied_bytes = bytes * (traffic.ranks - 1) / traffic.ranks;
  cost.reduced_bytes = bytes;
  return cost;
}

// The root's copies out are the bottleneck of the first half, everybody's reads of the second.
Cost broadcast_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.one_to_all(cost, bytes / traffic.ranks);
  traffic.all_pairs(cost, bytes / traffic.ranks);
  cost.steps = 2 * traffic.ranks;
  cost.flows = true;
  cost.copied_bytes = 2 * bytes;
  return cost;
}

}  // namespace

Algorithm two_shot_all_reduce() {
  return make_row<TwoShotAllReduce>("two_shot", Collective::kAllReduce,
                                    {kAlways, all_reduce_chunking, all_reduce_cost, true, true});
}
Algorithm two_shot_reduce_scatter() {
  return make_row<TwoShotReduceScatter>("two_shot", Collective::kReduceScatter,
                                        {kAlways, reduce_scatter_chunking, reduce_scatter_cost, true, true});
}
Algorithm two_shot_broadcast() {
  return make_row<TwoShotBroadcast>("two_shot", Collective::kBroadcast, {kAlways, broadcast_chunking, broadcast_cost});
}

}  // namespace tutti
