#pragma once

#include "collectives/ring_order.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// A line of ranks that starts at the root, in ring order. As many hops as ranks, but rounds follow each other along
// it, so that long messages flow at the speed of one link.
namespace tutti {

// Where this rank stands on the line.
struct ChainPlace {
  int behind;  // how many ranks after the root
  PeerSet towards_root;
  PeerSet away;

  TUTTI_HOST_DEVICE constexpr ChainPlace(const Layout& layout, int root)
      : behind(wrapped(ring_place(layout, layout.rank) - ring_place(layout, root) + layout.ranks, layout.ranks)),
        towards_root(only(ring_rank(layout, ring_place(layout, layout.rank) - 1))),
        away(only(ring_rank(layout, ring_place(layout, layout.rank) + 1))) {}
};

struct ChainBroadcast {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    return layout.ranks > 1 && layout.rank == root ? 2 : 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    if (layout.ranks == 1) return alone(false);
    const ChainPlace place(layout, root);
    if (place.behind == 0) return index == 0 ? readable(send(input(0), place.away)) : copy(input(0), output(0));
    if (place.behind == layout.ranks - 1) return receive(place.towards_root, output(0));
    return readable(forward(place.towards_root, output(0), place.away));
  }
};

struct ChainReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout&, int) { return 1; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int) {
    if (layout.ranks == 1) return alone(true);
    const ChainPlace place(layout, root);
    if (place.behind == 0) return finishing(contributing(reduce(input(0), place.away, output(0))));
    if (place.behind == layout.ranks - 1) return readable(contributing(send(input(0), place.towards_root)));
    return contributing(reduce_send(input(0), place.away, kNowhere, place.towards_root));
  }
};

}  // namespace tutti
