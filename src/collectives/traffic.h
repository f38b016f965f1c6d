#pragma once

#include "schedule/algorithm.h"
#include "schedule/layout.h"

// Counting for cost functions: how many peers and how many bytes meet which kind of link.
//
// An end of a local link is a rank, an end of a remote link is a host: its ranks share the wire. Bytes are those that
// come in (or go out, where that is more) at the busiest end. Where the layout's hosts are groups of one host
// (as_groups()), what is counted as remote crosses between groups, and an end of that is a rank as well.
namespace tutti {

struct Traffic {
  explicit Traffic(const Layout& layout);

  double ranks = 1;
  double hosts = 1;
  double largest = 1;       // ranks of the largest host
  double smallest = 1;      // ranks of the smallest host
  double local_peers = 0;   // of a rank on the largest host
  double remote_peers = 0;  // of a rank on the smallest host
  double remote_pairs = 0;  // (rank on it, rank elsewhere) of the host that has most of them
  bool consecutive = true;  // the ranks of each host are consecutive numbers
  bool inside = false;      // hosts are groups of one host
  // Of what a host exchanges along its rails, this share passes the busiest end: all of it through a wire.
  double rail_share = 1;

  // Every rank takes `bytes` from each other rank.
  void all_pairs(Cost& cost, double bytes) const;
  // One rank takes `bytes` from each other rank, or gives.
  void one_to_all(Cost& cost, double bytes) const;
  // `hops` messages one after the other along the ring order, each rank taking `bytes` in all.
  void along_ring(Cost& cost, double hops, double bytes) const;
  // One hop between ranks whose numbers are `distance` apart, each taking `bytes`.
  void shifted(Cost& cost, double distance, double bytes) const;
  // Of so many levels of a tree over rank numbers, how many cross between hosts.
  double remote_levels(double levels) const;
};

}  // namespace tutti
