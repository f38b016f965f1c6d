#include "collectives/double_tree.h"

#include "collectives/fold.h"
#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

Chunking chunking(const Layout& layout) {
  if (layout.ranks == 1) return {};
  Chunking chunking;
  chunking.chunks = DoubleTreeAllReduce::kChunks;
  return chunking;
}

// Up and down 1 + log2(n) levels; a rank is inner in one tree, where it takes half of the data from two children and
// once from its parent, and a leaf in the other, where it takes the other half once. (Sanders, Speck, Träff, 2009.)
Cost all_reduce_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double levels = ceil_log2(layout.ranks);
  const double remote_levels = traffic.remote_levels(levels);
  Cost cost;
  const double chunks = DoubleTreeAllReduce::kChunks;
  if (layout.hosts > 1) cost.remote = {2 * remote_levels, 3 * chunks, 2 * bytes, 2 * remote_levels};
  if (traffic.largest > 1) {
    cost.local = {2 * (levels - remote_levels), 3 * chunks, 2 * bytes, 2 * (levels - remote_levels)};
  }
  cost.steps = 2 * DoubleTreeAllReduce::kChunks;
  cost.copied_bytes = 2 * bytes;
  cost.reduced_bytes = 1.5 * bytes;
  return cost;
}

}  // namespace

Algorithm double_tree_all_reduce() {
  return make_row<DoubleTreeAllReduce>("double_tree", Collective::kAllReduce, {kAlways, chunking, all_reduce_cost});
}

}  // namespace tutti
