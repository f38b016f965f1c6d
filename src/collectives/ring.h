#pragma once

#include "collectives/ring_order.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// Everybody talks to two neighbours only. Fewest bytes and the most hops; one flow crosses each wire between hosts.
// Chunk (or block) k starts at the rank behind place k and travels once around.
namespace tutti {

struct RingAllReduce {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) { return 2 * layout.ranks - 1; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    if (ranks == 1) return alone(true);
    const int place = ring_place(layout, layout.rank);
    const PeerSet next = only(ring_rank(layout, place + 1));
    const PeerSet previous = only(ring_rank(layout, place - 1));
    const int chunk = (place + 2 * ranks - index) % ranks;
    // In place, what overwrites this chunk has been around: through the reader first.
    if (index == 0) return readable(contributing(send(input(chunk), next)));
    if (index < ranks - 1) return contributing(reduce_send(input(chunk), previous, kNowhere, next));
    if (index == ranks - 1) {
      return readable(finishing(contributing(reduce_send(input(chunk), previous, output(chunk), next))));
    }
    if (index < 2 * ranks - 2) return readable(forward(previous, output(chunk), next));
    return receive(previous, output(chunk));
  }
};

struct RingAllGather {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    return layout.ranks == 1 ? 1 : layout.ranks + 1;
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    if (ranks == 1) return alone(false);
    const int place = ring_place(layout, layout.rank);
    const PeerSet next = only(ring_rank(layout, place + 1));
    const PeerSet previous = only(ring_rank(layout, place - 1));
    if (index == 0) return readable(send(input(0), next));
    if (index == 1) return copy(input(0), output(layout.rank));
    const int block = ring_rank(layout, place + 1 - index);
    if (index < ranks) return readable(forward(previous, output(block), next));
    return receive(previous, output(block));
  }
};

struct RingReduceScatter {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) { return layout.ranks; }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    if (ranks == 1) return alone(true);
    const int place = ring_place(layout, layout.rank);
    const PeerSet next = only(ring_rank(layout, place + 1));
    const PeerSet previous = only(ring_rank(layout, place - 1));
    const int block = ring_rank(layout, place - 1 - index);
    if (index == 0) return readable(contributing(send(input(block), next)));
    if (index < ranks - 1) return contributing(reduce_send(input(block), previous, kNowhere, next));
    return finishing(contributing(reduce(input(block), previous, output(0))));
  }
};

}  // namespace tutti
