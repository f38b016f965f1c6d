#include "collectives/halving_doubling.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// The largest message: all chunks where pairs are folded, else half of them.
Chunking all_reduce_chunking(const Layout& layout) {
  if (layout.ranks == 1) return {};
  const Fold fold(layout.ranks, layout.rank);
  Chunking chunking;
  chunking.chunks = fold.power;
  chunking.slot_chunks = fold.extra > 0 ? fold.power : fold.power / 2;
  return chunking;
}

Chunking reduce_scatter_chunking(const Layout& layout) {
  if (layout.ranks == 1) return {};
  Chunking chunking;
  chunking.slot_chunks = layout.ranks / 2;
  chunking.scratch_chunks = layout.ranks / 2;
  return chunking;
}

// Rabenseifner, "Optimization of collective reduction operations" (2004).
Cost all_reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const Fold fold(layout.ranks, layout.rank);
  Cost cost;
  for (int level = 0; level < fold.levels; ++level) {
    const double piece = bytes / (2 << level);
    traffic.shifted(cost, 1 << level, piece);
    traffic.shifted(cost, 1 << level, piece);
    cost.copied_bytes += 2 * piece;
    cost.reduced_bytes += 2 * piece;
    cost.steps += 4;
  }
  if (fold.extra > 0) {
    traffic.shifted(cost, 1, bytes);
    traffic.shifted(cost, 1, bytes);
    cost.copied_bytes += bytes;
    cost.reduced_bytes += 2 * bytes;
    cost.steps += 2;
  }
  return cost;
}

Cost reduce_scatter_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost;
  for (int distance = layout.ranks / 2; distance > 0; distance /= 2) {
    const double piece = distance * bytes / traffic.ranks;
    traffic.shifted(cost, distance, piece);
    cost.copied_bytes += piece;
    cost.reduced_bytes += 2 * piece;
    cost.steps += 2;
  }
  return cost;
}

}  // namespace

Algorithm halving_doubling_all_reduce() {
  return make_row<HalvingDoublingAllReduce>("halving_doubling", Collective::kAllReduce,
                                            {kAlways, all_reduce_chunking, all_reduce_cost, true});
}
Algorithm recursive_halving_reduce_scatter() {
  return make_row<RecursiveHalvingReduceScatter>("recursive_halving", Collective::kReduceScatter,
                                                 {kPowerOfTwo, reduce_scatter_chunking, reduce_scatter_cost});
}

}  // namespace tutti
