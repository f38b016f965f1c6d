#pragma once

#include "schedule/layout.h"
#include "schedule/step.h"

// The members of peer sets, and the double binary tree behind two of them. Pure functions of the layout, for host and
// device; they neither allocate nor store.
namespace tutti {

// The double binary tree (Sanders, Speck, Träff: "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", 2009). Both trees span all ranks, and no rank is inner in both: each rank forwards one half of the data.
//
// In the first tree a rank is its own label, in the second ("mirror") labels are mirrored when the number of ranks is
// even and shifted by one when it is odd, so that odd and even labels swap. Labels 1 … n-1 form a binary tree in
// order, cut off at n: a label with lowest set bit b lies b/2 … from its children, and odd labels are leaves. Label 0
// is the root and has one child.
enum class Tree { kFirst, kMirror };

TUTTI_HOST_DEVICE constexpr int tree_label(int ranks, int rank, Tree tree) {
  if (tree == Tree::kFirst) return rank;
  return ranks % 2 == 0 ? ranks - 1 - rank : (rank + ranks - 1) % ranks;
}

// The inverse of tree_label().
TUTTI_HOST_DEVICE constexpr int tree_rank(int ranks, int label, Tree tree) {
  if (tree == Tree::kFirst) return label;
  return ranks % 2 == 0 ? ranks - 1 - label : (label + 1) % ranks;
}

TUTTI_HOST_DEVICE constexpr int tree_root(int ranks, Tree tree) { return tree_rank(ranks, 0, tree); }

// -1 at the root.
TUTTI_HOST_DEVICE constexpr int tree_parent(int ranks, int rank, Tree tree) {
  const int label = tree_label(ranks, rank, tree);
  if (label == 0) return -1;
  const int bit = label & -label;
  const int above = (label ^ bit) | (bit << 1);
  return tree_rank(ranks, above < ranks ? above : label ^ bit, tree);
}

// At most two children, ascending by rank.
struct TreeChildren {
  int count = 0;
  int ranks[2] = {-1, -1};
};

TUTTI_HOST_DEVICE constexpr TreeChildren tree_children(int ranks, int rank, Tree tree) {
  TreeChildren children;
  const int label = tree_label(ranks, rank, tree);
  if (label == 0) {
    if (ranks == 1) return children;
    int child = 1;
    while (child * 2 < ranks) child *= 2;
    children.ranks[children.count++] = tree_rank(ranks, child, tree);
    return children;
  }
  int step = (label & -label) / 2;
  if (step == 0) return children;
  children.ranks[children.count++] = tree_rank(ranks, label - step, tree);
  while (step > 0 && label + step >= ranks) step /= 2;
  if (step > 0) children.ranks[children.count++] = tree_rank(ranks, label + step, tree);
  if (children.count == 2 && children.ranks[0] > children.ranks[1]) {
    const int lower = children.ranks[1];
    children.ranks[1] = children.ranks[0];
    children.ranks[0] = lower;
  }
  return children;
}

namespace detail {

// The member of kRailPeers on another host, or -1 where that host has no such place.
TUTTI_HOST_DEVICE constexpr int rail_peer(const Layout& layout, int host, int place) {
  return place < host_size(layout, host) ? rank_at(layout, host, place) : -1;
}

// Hosts are numbered by their lowest rank, so rail peers at other places need not ascend with the host.
template <class F>
TUTTI_HOST_DEVICE constexpr void for_each_rail_peer(const Layout& layout, F&& f) {
  const int own = host_of(layout, layout.rank);
  const int place = place_of(layout, layout.rank);
  for (int last = -1;;) {
    int next = layout.ranks;
    for (int host = 0; host < layout.hosts; ++host) {
      if (host == own) continue;
      const int peer = rail_peer(layout, host, place);
      if (peer > last && peer < next) next = peer;
    }
    if (next == layout.ranks) return;
    f(next);
    last = next;
  }
}

}  // namespace detail

// Calls f(rank) for every member, in rank order. A named set may be empty; this rank is a member of none of them.
template <class F>
TUTTI_HOST_DEVICE constexpr void for_each_member(const Layout& layout, PeerSet set, F&& f) {
  switch (set) {
    case kNobody:
      return;
    case kEveryone:
      for (int rank = 0; rank < layout.ranks; ++rank) {
        if (rank != layout.rank) f(rank);
      }
      return;
    case kHostPeers: {
      const int host = host_of(layout, layout.rank);
      const int size = host_size(layout, host);
      for (int place = 0; place < size; ++place) {
        const int rank = rank_at(layout, host, place);
        if (rank != layout.rank) f(rank);
      }
      return;
    }
    case kRailPeers:
      detail::for_each_rail_peer(layout, f);
      return;
    case kGroupPeers:
      if (layout.groups > 1) for_each_member(as_groups(layout), kHostPeers, f);
      return;
    case kGroupRailPeers:
      if (layout.groups > 1) for_each_member(as_groups(layout), kRailPeers, f);
      return;
    case kTreeChildren:
    case kMirrorChildren: {
      const Tree tree = set == kTreeChildren ? Tree::kFirst : Tree::kMirror;
      const TreeChildren children = tree_children(layout.ranks, layout.rank, tree);
      for (int i = 0; i < children.count; ++i) f(children.ranks[i]);
      return;
    }
    default:
      f(static_cast<int>(set));
  }
}

TUTTI_HOST_DEVICE constexpr int set_size(const Layout& layout, PeerSet set) {
  if (set == kNobody) return 0;
  if (set < kFirstNamedSet) return 1;
  int size = 0;
  for_each_member(layout, set, [&size](int) { ++size; });
  return size;
}

}  // namespace tutti
