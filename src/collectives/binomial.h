#pragma once

#include "collectives/fold.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// The binomial tree: log2(n) hops from or to the root. Ranks are counted from the root; rank v has the children
// v + 2^j for every 2^j below v's lowest bit, and child v + 2^j stands for the ranks v + 2^j … v + 2^(j+1) - 1.
namespace tutti {

struct BinomialPlace {
  int ranks;
  int root;
  int own;       // counted from the root
  int children;  // child k < children is own + 2^k

  TUTTI_HOST_DEVICE constexpr BinomialPlace(const Layout& layout, int root_rank)
      : BinomialPlace(layout.ranks, root_rank, wrapped(layout.rank - root_rank + layout.ranks, layout.ranks)) {}
  TUTTI_HOST_DEVICE constexpr BinomialPlace(int rank_count, int root_rank, int place)
      : ranks(rank_count), root(root_rank), own(place), children(0) {
    while (own + (1 << children) < ranks && (own & (1 << children)) == 0) ++children;
  }

  TUTTI_HOST_DEVICE constexpr int child(int k) const { return own + (1 << k); }
  TUTTI_HOST_DEVICE constexpr int parent() const { return own & (own - 1); }
  TUTTI_HOST_DEVICE constexpr int rank_of(int place) const { return wrapped(place + root, ranks); }
  TUTTI_HOST_DEVICE constexpr PeerSet peer(int place) const { return only(rank_of(place)); }

  // How many ranks child k stands for, itself included.
  TUTTI_HOST_DEVICE constexpr int subtree(int k) const {
    const int left = ranks - child(k);
    return left < (1 << k) ? left : 1 << k;
  }
  // How many this rank stands for.
  TUTTI_HOST_DEVICE constexpr int subtree() const {
    const int whole = own == 0 ? ranks : own & -own;
    return ranks - own < whole ? ranks - own : whole;
  }
  // Of `count` blocks that begin at a place, how many come before block 0: the root sees the blocks in two pieces
  // when that is less than all.
  TUTTI_HOST_DEVICE constexpr int before_wrap(int place, int count) const {
    const int first = rank_of(place);
    return ranks - first < count ? ranks - first : count;
  }
  // The child whose blocks come in two pieces at the root, or `children`.
  TUTTI_HOST_DEVICE constexpr int split_child() const {
    for (int k = 0; k < children; ++k) {
      if (before_wrap(child(k), subtree(k)) < subtree(k)) return k;
    }
    return children;
  }
};

struct BinomialBroadcast {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    if (layout.ranks == 1) return 1;
    const BinomialPlace place(layout, root);
    return place.own == 0 ? place.children + 1 : place.children == 0 ? 1 : place.children;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    if (layout.ranks == 1) return alone(false);
    const BinomialPlace place(layout, root);
    if (place.own == 0 && index == place.children) return copy(input(0), output(0));
    if (place.children == 0) return receive(place.peer(place.parent()), output(0));
    const PeerSet child = place.peer(place.child(place.children - 1 - index));  // the largest subtree first
    if (place.own == 0) return readable(send(input(0), child));
    if (index == 0) return readable(forward(place.peer(place.parent()), output(0), child));
    return readable(send(output(0), child));
  }
};

struct BinomialReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    const int children = BinomialPlace(layout, root).children;
    return children == 0 ? 1 : children;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    if (layout.ranks == 1) return alone(true);
    const BinomialPlace place(layout, root);
    if (place.children == 0) return readable(contributing(send(input(0), place.peer(place.parent()))));
    const PeerSet child = place.peer(place.child(index));
    const Operand partial = place.own == 0 ? output(0) : scratch(0);
    const Operand mine = index == 0 ? input(0) : partial;
    const bool final = index == place.children - 1;
    if (final && place.own != 0) {
      return contributing(reduce_send(mine, child, kNowhere, place.peer(place.parent())), index == 0);
    }
    return finishing(contributing(reduce(mine, child, partial), index == 0), final);
  }
};

// Blocks collect in scratch, in order of places; a rank sends all of its subtree at once.
struct BinomialGather {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    if (layout.ranks == 1) return 1;
    const BinomialPlace place(layout, root);
    if (place.own == 0) return 1 + place.children + (place.split_child() < place.children);
    return (place.children == 0 ? 0 : 1 + place.children) + pieces(place);
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    if (layout.ranks == 1) return alone(false);
    const BinomialPlace place(layout, root);
    if (place.own == 0) {
      if (index == 0) return copy(input(0), output(root));
      const int split = place.split_child();
      const int k = index - 1 > split ? index - 2 : index - 1;
      const int first = place.rank_of(place.child(k));
      const int before = place.before_wrap(place.child(k), place.subtree(k));
      const PeerSet child = place.peer(place.child(k));
      if (index - 2 == split) return receive(child, output(0), place.subtree(k) - before);
      return receive(child, output(first), before);
    }
    const PeerSet parent = place.peer(place.parent());
    if (place.children == 0) return readable(send(input(0), parent));
    if (index == 0) return copy(input(0), scratch(0));
    if (index <= place.children) {
      const int k = index - 1;
      return receive(place.peer(place.child(k)), scratch(1 << k), place.subtree(k));
    }
    const int before = pieces(place) == 1 ? place.subtree() : place.before_wrap(place.own, place.subtree());
    if (index == place.children + 1) return send(scratch(0), parent, before);
    return send(scratch(before), parent, place.subtree() - before);
  }

  // Messages in which a rank's blocks reach its parent.
  TUTTI_HOST_DEVICE static constexpr int pieces(const BinomialPlace& place) {
    return place.parent() == 0 && place.before_wrap(place.own, place.subtree()) < place.subtree() ? 2 : 1;
  }
};

// The way back: a rank receives all of its subtree and passes on what is not its own.
struct BinomialScatter {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    if (layout.ranks == 1) return 1;
    const BinomialPlace place(layout, root);
    if (place.own == 0) return 1 + place.children + (place.split_child() < place.children);
    return place.children == 0 ? 1 : BinomialGather::pieces(place) + place.children + 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    if (layout.ranks == 1) return alone(false);
    const BinomialPlace place(layout, root);
    if (place.own == 0) return root_step(place, index);
    const PeerSet parent = place.peer(place.parent());
    if (place.children == 0) return receive(parent, output(0));
    const int pieces = BinomialGather::pieces(place);
    const int before = pieces == 1 ? place.subtree() : place.before_wrap(place.own, place.subtree());
    if (index == 0) return receive(parent, scratch(0), before);
    if (index < pieces) return receive(parent, scratch(before), place.subtree() - before);
    const int k = place.children - 1 - (index - pieces);  // the largest subtree first
    if (k < 0) return copy(scratch(0), output(0));
    return send(scratch(1 << k), place.peer(place.child(k)), place.subtree(k));
  }

 private:
  TUTTI_HOST_DEVICE static constexpr Step root_step(const BinomialPlace& place, int index) {
    const int split = place.split_child();
    const int messages = place.children + (split < place.children);
    if (index == messages) return copy(input(place.root), output(0));
    const int place_in_order = messages - 1 - index;
    const int k = place_in_order > split ? place_in_order - 1 : place_in_order;
    const int before = place.before_wrap(place.child(k), place.subtree(k));
    const PeerSet child = place.peer(place.child(k));
    const int first = place.rank_of(place.child(k));
    // Walking down, the first of the two pieces comes under the higher number.
    if (place_in_order == split && split < place.children) return send(input(0), child, place.subtree(k) - before);
    const Step step = send(input(first), child, before);
    return place.subtree(k) == 1 ? readable(step) : step;
  }
};

}  // namespace tutti
