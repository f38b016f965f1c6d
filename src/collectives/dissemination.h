#pragma once

#include "collectives/fold.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// Everybody tells the rank 2^k further on, for k = 0, 1, 2 … : after log2(n) hops everybody has heard of everybody.
namespace tutti {

struct DisseminationBarrier {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    return layout.ranks == 1 ? 0 : ceil_log2(layout.ranks) + 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    const int last = ceil_log2(ranks);
    const PeerSet to = only(wrapped(layout.rank + (1 << index) % ranks, ranks));
    if (index == 0) return send(kNowhere, to, 0);
    const PeerSet from = only(wrapped(layout.rank - (1 << (index - 1)) + ranks, ranks));
    return index < last ? forward(from, kNowhere, to, 0) : receive(from, kNowhere, 0);
  }
};

}  // namespace tutti
