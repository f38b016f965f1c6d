#include "collectives/bruck.h"

#include <algorithm>

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// The longest batch of a hop, in both messages together, all sent before anything is received. Not everybody sends two:
// around the circle, rank 0 never does, so one message for each connection is enough.
Chunking all_gather_chunking(const Layout& layout) {
  Chunking chunking;
  for (int hop = 0; hop < ceil_log2(layout.ranks); ++hop) {
    chunking.slot_chunks = std::max(chunking.slot_chunks, BruckAllGather::batch(layout.ranks, hop));
  }
  return chunking;
}

Chunking all_to_all_chunking(const Layout& layout) {
  if (layout.ranks == 1) return {};
  Chunking chunking;
  for (int hop = 0; hop < ceil_log2(layout.ranks); ++hop) {
    chunking.slot_chunks = std::max(chunking.slot_chunks, BruckAllToAll::batch(layout.ranks, hop));
  }
  chunking.scratch_chunks = layout.ranks + chunking.slot_chunks;
  return chunking;
}

Cost all_gather_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  for (int hop = 0; hop < ceil_log2(layout.ranks); ++hop) {
    const double batch = BruckAllGather::batch(layout.ranks, hop) * bytes / traffic.ranks;
    traffic.shifted(cost, 1 << hop, batch);
    cost.steps += 3;
    cost.copied_bytes += batch;
  }
  cost.steps += 1;
  return cost;
}

// Every block is packed, sent and unpacked in about half of the hops.
Cost all_to_all_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  cost.steps = 2 * traffic.ranks;
  cost.copied_bytes = 2 * bytes;
  for (int hop = 0; hop < ceil_log2(layout.ranks); ++hop) {
    const double blocks = BruckAllToAll::batch(layout.ranks, hop);
    const double batch = blocks * bytes / traffic.ranks;
    traffic.shifted(cost, 1 << hop, batch);
    cost.steps += 2 * blocks + 2;
    cost.copied_bytes += 3 * batch;
  }
  return cost;
}

}  // namespace

Algorithm bruck_all_gather() {
  return make_row<BruckAllGather>("bruck", Collective::kAllGather, {kAlways, all_gather_chunking, all_gather_cost});
}
Algorithm bruck_all_to_all() {
  return make_row<BruckAllToAll>("bruck", Collective::kAllToAll, {kAlways, all_to_all_chunking, all_to_all_cost});
}

}  // namespace tutti
