#pragma once

#include "collectives/steps.h"
#include "schedule/layout.h"

// Ranks meet in pairs, one pair after the other: in round k, rank r exchanges a block with rank (k - r) mod n. Nobody
// is asked by two at once, one slot is enough, and in place each block leaves before its successor arrives.
namespace tutti {

struct PairwiseAllToAll {
  // A rank meets itself once: a copy instead of an exchange.
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) { return 2 * layout.ranks - 1; }

  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    const int self = 2 * layout.rank % ranks;  // the round in which it meets itself
    if (index == 2 * self) return copy(input(layout.rank), output(layout.rank));
    if (index > 2 * self) ++index;
    const int peer = wrapped(index / 2 - layout.rank + ranks, ranks);
    if (index % 2 == 1) return receive(only(peer), output(peer));
    // In place, the peer's block may overwrite this one before the peer has read it.
    return readable(send(input(peer), only(peer)), kReadableOutOfPlace);
  }
};

}  // namespace tutti
