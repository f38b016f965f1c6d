#include "collectives/recursive_doubling.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// Partners answer each other in one step, which needs a second slot.
Chunking all_reduce_chunking(const Layout& layout) {
  Chunking chunking;
  if (layout.ranks > 1) chunking.slot_chunks = 2;
  return chunking;
}

Chunking all_gather_chunking(const Layout& layout) {
  Chunking chunking;
  if (layout.ranks > 1) chunking.slot_chunks = layout.ranks / 2;
  return chunking;
}

Cost all_reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const Fold fold(layout.ranks, layout.rank);
  const double hops = fold.levels + (fold.extra > 0 ? 2 : 0);
  Cost cost;
  for (int level = 0; level < fold.levels; ++level) traffic.shifted(cost, 1 << level, bytes);
  if (fold.extra > 0) {
    traffic.shifted(cost, 1, bytes);
    traffic.shifted(cost, 1, bytes);
  }
  cost.steps = hops + 1;
  cost.copied_bytes = hops * bytes;
  cost.reduced_bytes = 2 * hops * bytes;
  return cost;
}

Cost all_gather_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  for (int distance = 1; distance < layout.ranks; distance *= 2) {
    traffic.shifted(cost, distance, distance * bytes / traffic.ranks);
    cost.steps += 2;
  }
  cost.copied_bytes = bytes;
  return cost;
}

}  // namespace

Algorithm recursive_doubling_all_reduce() {
  return make_row<RecursiveDoublingAllReduce>("recursive_doubling", Collective::kAllReduce,
                                              {kAlways, all_reduce_chunking, all_reduce_cost, true});
}
Algorithm recursive_doubling_all_gather() {
  return make_row<RecursiveDoublingAllGather>("recursive_doubling", Collective::kAllGather,
                                              {kPowerOfTwo, all_gather_chunking, all_gather_cost});
}

}  // namespace tutti
