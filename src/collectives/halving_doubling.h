#pragma once

#include "collectives/fold.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// Halving: partners split what they have, each combines one half, at distance 1, 2, 4 …; doubling is the way back.
// log2(n) hops each, as few bytes as a ring (Rabenseifner).
namespace tutti {

// Halves at distance 1 first, so that every element is combined by the reproducible tree.
struct HalvingDoublingAllReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    if (layout.ranks == 1) return 1;
    const Fold fold(layout.ranks, layout.rank);
    return fold.outside ? 2 : 4 * fold.levels + (fold.folded ? 2 : 0);
  }

  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    if (layout.ranks == 1) return alone(true);
    const Fold fold(layout.ranks, layout.rank);
    if (fold.outside) {
      const PeerSet pair = only(layout.rank - 1);
      return index == 0 ? readable(contributing(send(input(0), pair, fold.power)))
                        : receive(pair, output(0), fold.power);
    }
    if (fold.folded) {
      const PeerSet pair = only(layout.rank + 1);
      if (index == 0) return contributing(reduce(input(0), pair, output(0), fold.power));
      if (index == 4 * fold.levels + 1) return readable(send(output(0), pair, fold.power));
      --index;
    }
    if (index < 2 * fold.levels) return halving(fold, index / 2, index % 2 == 1);
    const int level = fold.levels - 1 - (index - 2 * fold.levels) / 2;
    const int size = fold.power >> (level + 1);
    const int mine = kept(fold, level + 1);
    if (index % 2 == 0) return readable(send(output(mine), fold.partner(level), size));
    return receive(fold.partner(level), output(mine ^ size), size);
  }

 private:
  // First of the chunks that a rank is left with after so many halvings.
  TUTTI_HOST_DEVICE static constexpr int kept(const Fold& fold, int halvings) {
    int first = 0;
    for (int level = 0; level < halvings; ++level) first += (fold.own >> level & 1) * (fold.power >> (level + 1));
    return first;
  }

  TUTTI_HOST_DEVICE static constexpr Step halving(const Fold& fold, int level, bool receiving) {
    const bool raw = level == 0 && !fold.folded;
    const int size = fold.power >> (level + 1);
    const int mine = kept(fold, level + 1);
    const int other = mine ^ size;
    const PeerSet partner = fold.partner(level);
    // What overwrites the half that is sent comes from the partner that has read it, on the way back.
    if (!receiving) return readable(contributing(send(raw ? input(other) : output(other), partner, size), raw));
    const Step step = reduce(raw ? input(mine) : output(mine), partner, output(mine), size);
    return finishing(contributing(step, raw), level == fold.levels - 1);
  }
};

// For powers of two. Halves at the largest distance first, which keeps the blocks that remain side by side. Several
// blocks are not one piece of memory in general, so no send of them is readable.
struct RecursiveHalvingReduceScatter {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    return layout.ranks == 1 ? 1 : 2 * floor_log2(layout.ranks);
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    if (layout.ranks == 1) return alone(true);
    const int size = layout.ranks >> (index / 2 + 1);
    const int rank = layout.rank;
    const PeerSet partner = only(rank ^ size);
    const bool raw = index < 2;
    // Scratch holds the blocks of the aligned group of `2·size` ranks around this one.
    const int group = rank & -(2 * size);
    const int mine = rank & -size;
    const int other = mine ^ size;
    if (index % 2 == 0) {
      const Operand half = raw ? input(other) : scratch(other - group);
      const Step step = contributing(send(half, partner, size), raw);
      return raw && size == 1 ? readable(step) : step;
    }
    const Operand half = raw ? input(mine) : scratch(mine - group);
    if (size == 1) return finishing(contributing(reduce(half, partner, output(0)), raw));
    return contributing(reduce(half, partner, scratch(0), size), raw);
  }
};

}  // namespace tutti
