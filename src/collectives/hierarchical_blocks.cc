#include "collectives/hierarchical_blocks.h"

#include <algorithm>

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

int largest_host(const Layout& layout) {
  int largest = 0;
  for (int host = 0; host < layout.hosts; ++host) largest = std::max(largest, host_size(layout, host));
  return largest;
}

// A block for the next host but one is under way while those of the next host are passed on. Found by search over even
// and uneven hosts, exact where they are even; the verifier checks it.
Chunking all_gather_chunking(const Layout& layout) {
  const HostView view(layout);
  const int largest = largest_host(layout);
  const int ahead = view.hosts > 2 ? 1 : 0;
  Chunking chunking;
  chunking.slot_chunks = 1 + ahead;
  if (largest > 1) chunking.slot_chunks += 1 + (largest + view.rails - 1) / view.rails;
  return chunking;
}

// What goes to the next host but one leaves before the share of the next host has been taken.
Chunking reduce_scatter_chunking(const Layout& layout) {
  const HostView view(layout);
  Chunking chunking;
  chunking.slot_chunks = largest_host(layout) + (view.hosts > 2 ? view.rails : 0);
  chunking.scratch_chunks = 1;
  return chunking;
}

// Each block enters each other host once, and is read there by every rank.
Cost all_gather_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double block = bytes / traffic.ranks;
  Cost cost;
  const double carried = traffic.remote_peers / traffic.smallest;
  cost.remote = {traffic.hosts - 1, traffic.hosts - 1 + carried, block * traffic.remote_peers * traffic.rail_share};
  if (traffic.largest > 1) {
    cost.local = {traffic.hosts, traffic.ranks + carried * traffic.local_peers, bytes};
    cost.copied_bytes = bytes / traffic.smallest;
  }
  cost.steps = traffic.ranks + traffic.hosts;
  cost.copied_bytes += block;
  return cost;
}

Cost reduce_scatter_cost(const Layout& layout, double bytes) {
  const Traffic traffic(layout);
  const double block = bytes / traffic.ranks;
  Cost cost;
  const double carried = traffic.remote_peers / traffic.smallest;
  cost.remote = {traffic.hosts - 1, traffic.hosts - 1 + carried, block * traffic.remote_peers * traffic.rail_share};
  cost.reduced_bytes = 2 * traffic.hosts * block;
  if (traffic.largest > 1) {
    cost.local = {traffic.hosts, traffic.ranks + carried * traffic.local_peers, bytes};
    cost.copied_bytes = bytes;
    cost.reduced_bytes += bytes * traffic.largest / traffic.smallest;
  }
  cost.steps = traffic.ranks + traffic.hosts;
  return cost;
}

}  // namespace

Algorithm hierarchical_all_gather() {
  return make_row<HierarchicalAllGather>("hierarchical", Collective::kAllGather,
                                         {kSeveralHosts, all_gather_chunking, all_gather_cost});
}
Algorithm hierarchical_reduce_scatter() {
  return make_row<HierarchicalReduceScatter>("hierarchical", Collective::kReduceScatter,
                                             {kSeveralHosts, reduce_scatter_chunking, reduce_scatter_cost});
}

}  // namespace tutti
