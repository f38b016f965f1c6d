#pragma once

#include "collectives/fold.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// log2(n) hops for any number of ranks: in hop k everybody hands a batch of blocks to a rank 2^k away (Bruck et al.,
// "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997).
namespace tutti {

// After hop k a rank holds the blocks of the 2^(k+1) ranks from itself upwards. Blocks go straight to their place in
// the output; a batch that runs over the last rank travels as two messages. Several blocks are not one piece of memory
// in general, so only the first send is readable.
struct BruckAllGather {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    int steps = 1;
    for (int hop = 0; hop < ceil_log2(layout.ranks); ++hop) steps += sends_in(layout, hop) + receives_in(layout, hop);
    return steps;
  }

  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    if (layout.ranks == 1) return alone(false);
    if (index == 1) return copy(input(0), output(layout.rank));
    if (index > 1) --index;
    int hop = 0;
    for (; index >= sends_in(layout, hop) + receives_in(layout, hop); ++hop) {
      index -= sends_in(layout, hop) + receives_in(layout, hop);
    }
    const int ranks = layout.ranks;
    const int sends = sends_in(layout, hop);
    const bool sending = index < sends;
    const int target = wrapped(layout.rank - (1 << hop) + ranks, ranks);
    const int source = wrapped(layout.rank + (1 << hop), ranks);
    const int first = sending ? layout.rank : source;
    const int before = before_wrap(ranks, first, batch(ranks, hop));
    const bool second = index == (sending ? 1 : sends + 1);
    const int block = second ? 0 : first;
    const int count = second ? batch(ranks, hop) - before : before;
    if (!sending) return receive(only(source), output(block), count);
    return hop == 0 ? readable(send(input(0), only(target))) : send(output(block), only(target), count);
  }

  // Blocks that change hands in a hop.
  TUTTI_HOST_DEVICE static constexpr int batch(int ranks, int hop) {
    const int left = ranks - (1 << hop);
    return left < (1 << hop) ? left : 1 << hop;
  }

 private:
  TUTTI_HOST_DEVICE static constexpr int before_wrap(int ranks, int first, int count) {
    return ranks - first < count ? ranks - first : count;
  }
  TUTTI_HOST_DEVICE static constexpr int pieces(int ranks, int first, int hop) {
    return before_wrap(ranks, first, batch(ranks, hop)) < batch(ranks, hop) ? 2 : 1;
  }
  TUTTI_HOST_DEVICE static constexpr int sends_in(const Layout& layout, int hop) {
    return pieces(layout.ranks, layout.rank, hop);
  }
  TUTTI_HOST_DEVICE static constexpr int receives_in(const Layout& layout, int hop) {
    return pieces(layout.ranks, wrapped(layout.rank + (1 << hop), layout.ranks), hop);
  }
};

// Block i is meant for the rank i further on; in hop k all blocks whose number has bit k set move 2^k ranks on. They
// are kept in scratch by number, and packed side by side, behind that, for the journey.
struct BruckAllToAll {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    int steps = 2 * layout.ranks;
    for (int hop = 0; hop < ceil_log2(layout.ranks); ++hop) steps += 2 * batch(layout.ranks, hop) + 2;
    return layout.ranks == 1 ? 1 : steps;
  }

  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    const int rank = layout.rank;
    if (ranks == 1) return alone(false);
    if (index < ranks) return copy(input(wrapped(rank + index, ranks)), scratch(index));
    index -= ranks;
    for (int hop = 0; hop < ceil_log2(ranks); ++hop) {
      const int size = batch(ranks, hop);
      if (index < size) return copy(scratch(member(hop, index)), scratch(ranks + index));
      if (index == size) return send(scratch(ranks), only(wrapped(rank + (1 << hop), ranks)), size);
      if (index == size + 1) return receive(only(wrapped(rank - (1 << hop) + ranks, ranks)), scratch(ranks), size);
      index -= size + 2;
      if (index < size) return copy(scratch(ranks + index), scratch(member(hop, index)));
      index -= size;
    }
    // Number `index` has come from the rank that lies as far back.
    return copy(scratch(index), output(wrapped(rank - index + ranks, ranks)));
  }

  // How many of the numbers below `ranks` have bit `hop` set.
  TUTTI_HOST_DEVICE static constexpr int batch(int ranks, int hop) {
    const int rest = (ranks & ((2 << hop) - 1)) - (1 << hop);
    return (ranks >> (hop + 1) << hop) + (rest > 0 ? rest : 0);
  }

 private:
  // The numbers with bit `hop` set, in order.
  TUTTI_HOST_DEVICE static constexpr int member(int hop, int index) {
    return (index >> hop << (hop + 1)) | (1 << hop) | (index & ((1 << hop) - 1));
  }
};

}  // namespace tutti
