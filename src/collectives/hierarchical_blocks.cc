#include "collectives/hierarchical_blocks.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

Chunking all_gather_chunking(const Layout& layout) {
  const Traffic traffic(layout);
  const HostView view(layout);
  Chunking chunking;
  chunking.slot_chunks = 64;
  chunking.window = 2;
  static_cast<void>(traffic);
  static_cast<void>(view);
  return chunking;
}

Chunking reduce_scatter_chunking(const Layout& layout) {
  Chunking chunking = all_gather_chunking(layout);
  chunking.scratch_chunks = 1;
  return chunking;
}

// Each block enters each other host once, and is read there by every rank.
Cost all_gather_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double block = bytes / traffic.ranks;
  Cost cost;
  cost.remote = {traffic.hosts - 1, block * (traffic.ranks - traffic.smallest)};
  if (traffic.largest > 1) {
    cost.local = {traffic.hosts, bytes};
    cost.copied_bytes = bytes / traffic.smallest;
  }
  cost.steps = traffic.ranks + traffic.hosts + traffic.largest;
  cost.copied_bytes += 2 * block;
  return cost;
}

Cost reduce_scatter_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double block = bytes / traffic.ranks;
  Cost cost;
  cost.remote = {traffic.hosts - 1, block * (traffic.ranks - traffic.smallest)};
  cost.reduced_bytes = 2 * traffic.hosts * block;
  if (traffic.largest > 1) {
    cost.local = {traffic.hosts, bytes};
    cost.copied_bytes = bytes;
    cost.reduced_bytes += bytes * traffic.largest / traffic.smallest;
  }
  cost.steps = traffic.ranks + traffic.hosts + traffic.largest * traffic.hosts;
  return cost;
}

}  // namespace

Algorithm hierarchical_all_gather() {
  return make_row<HierarchicalAllGather>("hierarchical", Collective::kAllGather,
                                         {several_hosts, all_gather_chunking, all_gather_cost});
}
Algorithm hierarchical_reduce_scatter() {
  return make_row<HierarchicalReduceScatter>("hierarchical", Collective::kReduceScatter,
                                             {several_hosts, reduce_scatter_chunking, reduce_scatter_cost});
}

}  // namespace tutti
