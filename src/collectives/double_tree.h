#pragma once

#include "collectives/steps.h"
#include "schedule/layout.h"
#include "schedule/peer_sets.h"

// The double binary tree: one half of the data goes up and down one tree, the other half the second, in which inner
// ranks are leaves of the first. Logarithmic depth, and every rank moves its data about twice.
namespace tutti {

struct DoubleTreeAllReduce {
  // Chunks of each tree in a round: while one is on its way down, the next ones go up.
  static constexpr int kDepth = 4;
  static constexpr int kChunks = 2 * kDepth;

  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    return layout.ranks == 1 ? 1 : 2 * kChunks;
  }

  // All chunks go up before the first comes down: between two ranks that are each other's parents, in one tree each,
  // messages keep one order.
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    if (layout.ranks == 1) return alone(true);
    return index < kChunks ? up(layout, index) : down(layout, index - kChunks);
  }

 private:
  TUTTI_HOST_DEVICE static constexpr Tree tree_of(int chunk) { return chunk % 2 == 0 ? Tree::kFirst : Tree::kMirror; }
  TUTTI_HOST_DEVICE static constexpr PeerSet children_in(Tree tree) {
    return tree == Tree::kFirst ? kTreeChildren : kMirrorChildren;
  }

  TUTTI_HOST_DEVICE static constexpr Step up(const Layout& layout, int chunk) {
    const Tree tree = tree_of(chunk);
    const int parent = tree_parent(layout.ranks, layout.rank, tree);
    const PeerSet children = children_in(tree);
    if (parent < 0) return finishing(contributing(reduce(input(chunk), children, output(chunk))));
    // In place, the result that overwrites this chunk comes from the parent that has read it.
    if (tree_children(layout.ranks, layout.rank, tree).count == 0) {
      return readable(contributing(send(input(chunk), only(parent))));
    }
    return contributing(reduce_send(input(chunk), children, kNowhere, only(parent)));
  }

  TUTTI_HOST_DEVICE static constexpr Step down(const Layout& layout, int chunk) {
    const Tree tree = tree_of(chunk);
    const int parent = tree_parent(layout.ranks, layout.rank, tree);
    if (parent < 0) return readable(send(output(chunk), children_in(tree)));
    if (tree_children(layout.ranks, layout.rank, tree).count == 0) return receive(only(parent), output(chunk));
    return readable(forward(only(parent), output(chunk), children_in(tree)));
  }
};

}  // namespace tutti
