#include "collectives/pat.h"

#include <algorithm>

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// The messages of a hop are sent before any of them is received.
Chunking chunking(const Layout& layout) {
  if (layout.ranks == 1) return {};
  const PatOrder order(layout.ranks);
  Chunking chunking;
  for (int hop = 0; hop < order.hops(); ++hop) {
    chunking.slot_chunks = std::max(chunking.slot_chunks, order.arriving(hop));
    chunking.window = std::max(chunking.window, order.pieces(hop));
  }
  chunking.scratch_chunks = layout.ranks;
  return chunking;
}

Cost hops_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const PatOrder order(layout.ranks);
  Cost cost;
  for (int hop = 0; hop < order.hops(); ++hop) {
    traffic.shifted(cost, 1 << hop, order.arriving(hop) * bytes / traffic.ranks);
    cost.steps += 2 * order.pieces(hop);
  }
  cost.steps += traffic.ranks + 1;
  cost.copied_bytes = 2 * bytes;  // between scratch and the user's buffers, and into slots
  return cost;
}

Cost reduce_scatter_cost(const Layout& layout, double bytes) {
  Cost cost = hops_cost(layout, bytes);
  cost.reduced_bytes = 2 * bytes;
  return cost;
}

}  // namespace

Algorithm pat_all_gather() {
  return make_row<PatAllGather>("pat", Collective::kAllGather, {kAlways, chunking, hops_cost});
}
Algorithm pat_reduce_scatter() {
  return make_row<PatReduceScatter>("pat", Collective::kReduceScatter, {kAlways, chunking, reduce_scatter_cost});
}

}  // namespace tutti
