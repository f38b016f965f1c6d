#pragma once

#include "collectives/steps.h"
#include "schedule/layout.h"

// One hop: everybody sends all that others need straight to them. Fewest synchronisations, most bytes: the shape of
// the smallest messages.
namespace tutti {

struct OneShotAllReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) { return layout.ranks == 1 ? 1 : 2; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    if (layout.ranks == 1) return alone(true);
    // In place, the reduction overwrites the input while others may still read it.
    if (index == 0) return readable(contributing(send(input(0), kEveryone)), kReadableOutOfPlace);
    return finishing(contributing(reduce(input(0), kEveryone, output(0))));
  }
};

struct OneShotAllGather {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    return layout.ranks == 1 ? 1 : layout.ranks + 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    if (layout.ranks == 1) return alone(false);
    if (index == 0) return readable(send(input(0), kEveryone));
    if (index == 1) return copy(input(0), output(layout.rank));
    const int peer = wrapped(layout.rank + index - 1, layout.ranks);
    return receive(only(peer), output(peer));
  }
};

struct OneShotBroadcast {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    return layout.ranks > 1 && layout.rank == root ? 2 : 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    if (layout.ranks == 1) return alone(false);
    if (layout.rank != root) return receive(only(root), output(0));
    return index == 0 ? readable(send(input(0), kEveryone)) : copy(input(0), output(0));
  }
};

struct OneShotReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout&, int) { return 1; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int) {
    if (layout.ranks == 1) return alone(true);
    if (layout.rank != root) return readable(contributing(send(input(0), only(root))));
    return finishing(contributing(reduce(input(0), kEveryone, output(0))));
  }
};

struct OneShotGather {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    return layout.rank == root ? layout.ranks : 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    if (layout.ranks == 1) return alone(false);
    if (layout.rank != root) return readable(send(input(0), only(root)));
    if (index == 0) return copy(input(0), output(root));
    const int peer = wrapped(root + index, layout.ranks);
    return receive(only(peer), output(peer));
  }
};

struct OneShotScatter {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    return layout.rank == root ? layout.ranks : 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    if (layout.ranks == 1) return alone(false);
    if (layout.rank != root) return receive(only(root), output(0));
    if (index == layout.ranks - 1) return copy(input(root), output(0));
    const int peer = wrapped(root + index + 1, layout.ranks);
    return readable(send(input(peer), only(peer)));
  }
};

struct OneShotAllToAll {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) { return 2 * layout.ranks - 1; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    if (index < ranks - 1) {
      const int peer = wrapped(layout.rank + index + 1, ranks);
      // In place, what arrives overwrites blocks that others may still read.
      return readable(send(input(peer), only(peer)), kReadableOutOfPlace);
    }
    if (index == ranks - 1) return copy(input(layout.rank), output(layout.rank));
    const int peer = wrapped(layout.rank + 2 * ranks - 1 - index, ranks);
    return receive(only(peer), output(peer));
  }
};

struct OneShotBarrier {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) { return layout.ranks == 1 ? 0 : 2; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout&, int, int index) {
    return index == 0 ? send(kNowhere, kEveryone, 0) : reduce(kNowhere, kEveryone, kNowhere, 0);
  }
};

}  // namespace tutti
