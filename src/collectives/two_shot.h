#pragma once

#include "collectives/steps.h"
#include "schedule/layout.h"

// Two hops, all pairs: every rank combines (or takes) one slice of the data and gives it to everybody. Every byte is
// combined once; the busiest rank moves as little as in a ring, with two synchronisations instead of 2(n-1).
namespace tutti {

struct TwoShotAllReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) { return 2 * layout.ranks - 1; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    if (ranks == 1) return alone(true);
    if (index < ranks - 1) {
      const int peer = wrapped(layout.rank + index + 1, ranks);
      // What overwrites this slice in place comes from the peer that has read it.
      return readable(contributing(send(input(peer), only(peer))));
    }
    const int own = layout.rank;
    if (index == ranks - 1) {
      // Whoever receives this has sent its own part of it before, and has not used the place since.
      return writable(readable(finishing(contributing(reduce_send(input(own), kEveryone, output(own), kEveryone)))));
    }
    const int peer = wrapped(own + index - ranks + 1, ranks);
    return receive(only(peer), output(peer));
  }
};

struct TwoShotReduceScatter {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) { return layout.ranks; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    if (ranks == 1) return alone(true);
    if (index < ranks - 1) {
      const int peer = wrapped(layout.rank + index + 1, ranks);
      return readable(contributing(send(input(peer), only(peer))));
    }
    return finishing(contributing(reduce(input(layout.rank), kEveryone, output(0))));
  }
};

// Scatter, then all-gather. The root's own slice goes to everybody at once. Slices that the others publish reach the
// root too, which ignores them: one publication serves all readers.
struct TwoShotBroadcast {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    if (layout.ranks == 1) return 1;
    return layout.rank == root ? 2 * layout.ranks : layout.ranks;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    const int ranks = layout.ranks;
    const int own = layout.rank;
    if (ranks == 1) return alone(false);
    if (own == root) {
      if (index < ranks - 1) {
        const int peer = wrapped(root + index + 1, ranks);
        return readable(send(input(peer), only(peer)));
      }
      if (index == ranks - 1) return readable(send(input(root), kEveryone));
      if (index == ranks) return copy(input(0), output(0), ranks);
      const int peer = wrapped(root + index - ranks, ranks);
      return receive(only(peer), kNowhere, 0);
    }
    if (index == 0) return readable(forward(only(root), output(own), kEveryone));
    const int slice = wrapped(own + index, ranks);
    return receive(only(slice), output(slice));
  }
};

}  // namespace tutti
