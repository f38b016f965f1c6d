#include "collectives/one_shot.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// Each rank copies its data out once, reads everybody's, and combines all of them.
Cost all_reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.all_pairs(cost, bytes);
  cost.steps = 2;
  cost.copied_bytes = bytes;
  cost.reduced_bytes = traffic.ranks * bytes;
  return cost;
}

Cost all_gather_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double block = bytes / traffic.ranks;
  Cost cost;
  traffic.all_pairs(cost, block);
  cost.steps = traffic.ranks + 1;
  cost.copied_bytes = block;
  return cost;
}

// The root publishes once on its host; over the network each reader costs a copy.
Cost broadcast_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.one_to_all(cost, bytes);
  if (traffic.local_peers > 0) cost.local.bytes = bytes;
  if (traffic.inside) cost.remote.bytes = bytes;
  cost.flows = true;
  cost.steps = 2;
  cost.copied_bytes = bytes;
  return cost;
}

Cost reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.one_to_all(cost, bytes);
  cost.flows = true;
  cost.steps = 1;
  cost.copied_bytes = bytes;
  cost.reduced_bytes = traffic.ranks * bytes;
  return cost;
}

Cost gather_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double block = bytes / traffic.ranks;
  Cost cost;
  traffic.one_to_all(cost, block);
  cost.flows = true;
  cost.steps = traffic.ranks;
  cost.copied_bytes = block;
  return cost;
}

// The root copies every block into a slot of its own; reading them happens side by side.
Cost scatter_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double block = bytes / traffic.ranks;
  Cost cost;
  traffic.one_to_all(cost, block);
  if (traffic.local_peers > 0) cost.local.bytes = block;
  if (traffic.inside) cost.remote.bytes = block;
  cost.flows = true;
  cost.steps = traffic.ranks;
  cost.copied_bytes = bytes - block;
  return cost;
}

Cost all_to_all_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.all_pairs(cost, bytes / traffic.ranks);
  cost.steps = 2 * traffic.ranks - 1;
  cost.copied_bytes = bytes;
  return cost;
}

Cost barrier_cost(const Layout& layout, double) {
  const Traffic traffic(layout);
  Cost cost;
  traffic.all_pairs(cost, 0);
  cost.steps = 2;
  return cost;
}

// All blocks are sent before the first is received.
Chunking all_to_all_chunking(const Layout& layout) {
  Chunking chunking;
  if (layout.ranks > 1) chunking.slot_chunks = layout.ranks - 1;
  return chunking;
}

}  // namespace

Algorithm one_shot_all_reduce() {
  return make_row<OneShotAllReduce>("one_shot", Collective::kAllReduce,
                                    {kAlways, single_chunk, all_reduce_cost, true, true});
}
Algorithm one_shot_all_gather() {
  return make_row<OneShotAllGather>("one_shot", Collective::kAllGather, {kAlways, single_chunk, all_gather_cost});
}
Algorithm one_shot_broadcast() {
  return make_row<OneShotBroadcast>("one_shot", Collective::kBroadcast, {kAlways, single_chunk, broadcast_cost});
}
Algorithm one_shot_reduce() {
  return make_row<OneShotReduce>("one_shot", Collective::kReduce, {kAlways, single_chunk, reduce_cost, true, true});
}
Algorithm one_shot_gather() {
  return make_row<OneShotGather>("one_shot", Collective::kGather, {kAlways, single_chunk, gather_cost});
}
Algorithm one_shot_scatter() {
  return make_row<OneShotScatter>("one_shot", Collective::kScatter, {kAlways, single_chunk, scatter_cost});
}
Algorithm one_shot_all_to_all() {
  return make_row<OneShotAllToAll>("one_shot", Collective::kAllToAll, {kAlways, all_to_all_chunking, all_to_all_cost});
}
Algorithm one_shot_barrier() {
  return make_row<OneShotBarrier>("one_shot", Collective::kBarrier, {kAlways, single_chunk, barrier_cost});
}

}  // namespace tutti
