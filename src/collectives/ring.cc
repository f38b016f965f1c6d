#include "collectives/ring.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// Where neighbours pass messages on in single steps, they wait for each other around the whole ring: with one message
// (or slot) each they would all be full.
Chunking all_reduce_chunking(const Layout& layout) {
  Chunking chunking;
  chunking.chunks = layout.ranks;
  chunking.slot_chunks = chunking.window = layout.ranks > 1 ? 2 : 1;
  return chunking;
}
Chunking block_chunking(const Layout& layout) {
  Chunking chunking;
  chunking.slot_chunks = chunking.window = layout.ranks > 2 ? 2 : 1;
  return chunking;
}

Cost all_reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double hops = 2 * (traffic.ranks - 1);
  Cost cost;
  traffic.along_ring(cost, hops, hops * bytes / traffic.ranks);
  cost.steps = hops + 1;
  cost.copied_bytes = bytes;
  cost.reduced_bytes = 2 * bytes;
  return cost;
}

Cost all_gather_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double hops = traffic.ranks - 1;
  Cost cost;
  traffic.along_ring(cost, hops, hops * bytes / traffic.ranks);
  cost.steps = hops + 2;
  cost.copied_bytes = bytes;
  return cost;
}

Cost reduce_scatter_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double hops = traffic.ranks - 1;
  Cost cost;
  traffic.along_ring(cost, hops, hops * bytes / traffic.ranks);
  cost.steps = hops + 1;
  cost.copied_bytes = bytes / traffic.ranks;
  cost.reduced_bytes = 2 * bytes;
  return cost;
}

}  // namespace

Algorithm ring_all_reduce() {
  return make_row<RingAllReduce>("ring", Collective::kAllReduce, {kAlways, all_reduce_chunking, all_reduce_cost});
}
Algorithm ring_all_gather() {
  return make_row<RingAllGather>("ring", Collective::kAllGather, {kAlways, block_chunking, all_gather_cost});
}
Algorithm ring_reduce_scatter() {
  return make_row<RingReduceScatter>("ring", Collective::kReduceScatter,
                                     {kAlways, block_chunking, reduce_scatter_cost});
}

}  // namespace tutti
