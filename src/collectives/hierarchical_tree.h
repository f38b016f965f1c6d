#pragma once

#include "collectives/binomial.h"
#include "collectives/host_view.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// broadcast, reduce and barrier for several hosts: one rank speaks for each host. Leaders form a binomial tree over
// hosts (in a barrier they disseminate), and each is one hop away from the ranks of its host.
namespace tutti {

struct HostTree {
  HostView view;
  int root;
  BinomialPlace place;  // of this host, counted from the root's

  TUTTI_HOST_DEVICE constexpr HostTree(const Layout& layout, int root_rank)
      : view(layout),
        root(root_rank),
        place(layout.hosts, tutti::host_of(layout, root_rank),
              (view.host - tutti::host_of(layout, root_rank) + layout.hosts) % layout.hosts) {}

  // The root speaks for its host, the first rank for others.
  TUTTI_HOST_DEVICE constexpr int leader(const Layout& layout, int host) const {
    return host == place.root ? root : rank_at(layout, host, 0);
  }
  TUTTI_HOST_DEVICE constexpr PeerSet own_leader(const Layout& layout) const { return only(leader(layout, view.host)); }
  TUTTI_HOST_DEVICE constexpr PeerSet parent(const Layout& layout) const {
    return only(leader(layout, place.rank_of(place.parent())));
  }
  // Whom a leader serves: hosts below it, and the ranks of its own host.
  TUTTI_HOST_DEVICE constexpr int branches() const { return place.children + (view.size > 1); }
  // The largest subtree first, the own host last.
  TUTTI_HOST_DEVICE constexpr PeerSet branch(const Layout& layout, int index) const {
    if (index == place.children) return kHostPeers;
    return only(leader(layout, place.rank_of(place.child(place.children - 1 - index))));
  }
};

struct HierarchicalBroadcast {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    const HostTree tree(layout, root);
    if (layout.rank == root) return tree.branches() + 1;
    if (tree.own_leader(layout) != only(layout.rank)) return 1;
    return tree.branches() == 0 ? 1 : tree.branches();
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    const HostTree tree(layout, root);
    const PeerSet leader = tree.own_leader(layout);
    if (leader != only(layout.rank)) return receive(leader, output(0));
    if (layout.rank == root) {
      if (index == tree.branches()) return copy(input(0), output(0));
      return readable(send(input(0), tree.branch(layout, index)));
    }
    if (tree.branches() == 0) return receive(tree.parent(layout), output(0));
    if (index == 0) return readable(forward(tree.parent(layout), output(0), tree.branch(layout, 0)));
    return readable(send(output(0), tree.branch(layout, index)));
  }
};

struct HierarchicalReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    const HostTree tree(layout, root);
    if (tree.own_leader(layout) != only(layout.rank)) return 1;
    return tree.branches() == 0 ? 1 : tree.branches();
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    const HostTree tree(layout, root);
    const PeerSet leader = tree.own_leader(layout);
    if (leader != only(layout.rank)) return readable(contributing(send(input(0), leader)));
    if (tree.branches() == 0) return readable(contributing(send(input(0), tree.parent(layout))));
    const bool at_root = layout.rank == root;
    const bool final = index == tree.branches() - 1;
    const Operand partial = at_root ? output(0) : scratch(0);
    const Operand mine = index == 0 ? input(0) : partial;
    const PeerSet from = tree.branch(layout, tree.branches() - 1 - index);
    if (final && !at_root) {
      return contributing(reduce_send(mine, from, kNowhere, tree.parent(layout)), index == 0);
    }
    return finishing(contributing(reduce(mine, from, partial), index == 0), final);
  }
};

struct HierarchicalBarrier {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    return place_of(layout, layout.rank) > 0 ? 2 : ceil_log2(layout.hosts) + 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const HostView view(layout);
    if (view.place > 0) {
      const PeerSet leader = only(rank_at(layout, view.host, 0));
      return index == 0 ? send(kNowhere, leader, 0) : receive(leader, kNowhere, 0);
    }
    const bool last = index == ceil_log2(layout.hosts);
    const PeerSet to = last ? kHostPeers : only(rank_at(layout, view.host_at((1 << index) % view.hosts), 0));
    if (index == 0) {
      return view.size > 1 ? reduce_send(kNowhere, kHostPeers, kNowhere, to, 0) : send(kNowhere, to, 0);
    }
    const PeerSet from = only(rank_at(layout, view.host_at(-(1 << (index - 1))), 0));
    return last && view.size == 1 ? receive(from, kNowhere, 0) : forward(from, kNowhere, to, 0);
  }
};

}  // namespace tutti
