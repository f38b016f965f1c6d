#include "collectives/binomial.h"

#include <algorithm>

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

// Blocks of the largest message: the largest subtree below the root.
int largest_subtree(int ranks) {
  const BinomialPlace root(ranks, 0, 0);
  int largest = 1;
  for (int k = 0; k < root.children; ++k) largest = std::max(largest, root.subtree(k));
  return largest;
}

Chunking gather_chunking(const Layout& layout) {
  Chunking chunking;
  chunking.slot_chunks = largest_subtree(layout.ranks);
  chunking.scratch_chunks = chunking.slot_chunks;
  return chunking;
}

Chunking reduce_chunking(const Layout&) {
  Chunking chunking;
  chunking.scratch_chunks = 1;
  return chunking;
}

// The root has log2(n) children, and the whole message goes to each. Consecutive ranks share hosts, so that the first
// levels cross between hosts.
Cost tree_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double levels = ceil_log2(layout.ranks);
  const double remote_levels = traffic.remote_levels(levels);
  Cost cost;
  cost.remote = {remote_levels, remote_levels, remote_levels * bytes};
  cost.local = {levels - remote_levels, levels - remote_levels, (levels - remote_levels) * bytes};
  cost.flows = true;
  cost.steps = levels + 1;
  return cost;
}

Cost broadcast_cost(const Layout& layout, double bytes) {
  Cost cost = tree_cost(layout, bytes);
  cost.local.bytes = std::min(cost.local.bytes, bytes);  // children read side by side
  cost.copied_bytes = ceil_log2(layout.ranks) * bytes;
  return cost;
}

Cost reduce_cost(const Layout& layout, double bytes) {
  Cost cost = tree_cost(layout, bytes);
  cost.copied_bytes = bytes;
  cost.reduced_bytes = 2 * ceil_log2(layout.ranks) * bytes;
  return cost;
}

// Everything but the root's own block passes its links; inner ranks pass on at most half of it.
Cost block_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  Cost cost = tree_cost(layout, 0);
  const double others = bytes * (traffic.ranks - 1) / traffic.ranks;
  const double remote = bytes * traffic.remote_peers / traffic.ranks;
  if (layout.hosts > 1) cost.remote.bytes = remote;
  if (traffic.largest > 1) cost.local.bytes = others - remote;
  cost.steps *= 2;
  cost.copied_bytes = others;
  return cost;
}

}  // namespace

Algorithm binomial_broadcast() {
  return make_row<BinomialBroadcast>("binomial", Collective::kBroadcast, {kAlways, single_chunk, broadcast_cost});
}
Algorithm binomial_reduce() {
  return make_row<BinomialReduce>("binomial", Collective::kReduce, {kAlways, reduce_chunking, reduce_cost});
}
Algorithm binomial_gather() {
  return make_row<BinomialGather>("binomial", Collective::kGather, {kAlways, gather_chunking, block_cost});
}
Algorithm binomial_scatter() {
  return make_row<BinomialScatter>("binomial", Collective::kScatter, {kAlways, gather_chunking, block_cost});
}

}  // namespace tutti
