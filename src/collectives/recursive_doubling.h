#pragma once

#include "collectives/fold.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// Partners at distance 1, 2, 4 … exchange all that they have: log2(n) hops.
namespace tutti {

// Adds neighbours first, so that it evaluates the reproducible tree.
struct RecursiveDoublingAllReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    if (layout.ranks == 1) return 1;
    const Fold fold(layout.ranks, layout.rank);
    return fold.outside ? 2 : fold.levels + 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    if (layout.ranks == 1) return alone(true);
    const Fold fold(layout.ranks, layout.rank);
    if (fold.outside) {
      const PeerSet pair = only(layout.rank - 1);
      return index == 0 ? readable(contributing(send(input(0), pair))) : receive(pair, output(0));
    }
    const PeerSet pair = only(layout.rank + 1);
    if (index == 0) {
      if (fold.folded) return contributing(reduce_send(input(0), pair, output(0), fold.partner(0)));
      // What the next steps send lies in the output, which each of them overwrites: those are never readable.
      return readable(contributing(send(input(0), fold.partner(0))), kReadableOutOfPlace);
    }
    const bool raw = index == 1 && !fold.folded;
    const Operand mine = raw ? input(0) : output(0);
    const PeerSet from = fold.partner(index - 1);
    if (index < fold.levels) return contributing(reduce_send(mine, from, output(0), fold.partner(index)), raw);
    const Step result =
        fold.folded ? readable(reduce_send(mine, from, output(0), pair)) : reduce(mine, from, output(0));
    return finishing(contributing(result, raw));
  }
};

// For powers of two. After step k a rank holds the 2^k blocks of its aligned group. Several blocks are not one piece of
// memory in general, so only the first send is readable.
struct RecursiveDoublingAllGather {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) { return 1 + 2 * floor_log2(layout.ranks); }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int rank = layout.rank;
    if (layout.ranks == 1) return alone(false);
    if (index == 0) return readable(send(input(0), only(rank ^ 1)));
    if (index == 1) return copy(input(0), output(rank));
    const int size = 1 << (index - 1) / 2;
    const int partner = rank ^ size;
    if (index % 2 == 1) return send(output(rank & -size), only(partner), size);
    return receive(only(partner), output(partner & -size), size);
  }
};

}  // namespace tutti
