#pragma once

#include "collectives/fold.h"
#include "collectives/steps.h"
#include "schedule/layout.h"

// Parallel aggregated trees: the block of every rank spreads along a binomial tree of its own, the farthest ranks
// first, and in each of the log2(n) hops a rank packs the blocks of all trees into one message. So only one block of
// each rank travels the longest distance, where Bruck's way sends half of all. (Jeaugey, "PAT: a new algorithm for
// all-gather and reduce-scatter operations at scale", 2025.)
namespace tutti {

// A block that has come `offset` ranks far. Blocks lie in scratch in an order in which those that may travel on in a
// hop, multiples of 2^(hop+1), lie in front of those that arrive in it, offset by 2^hop more; at every hop.
//
// One of those in front, the last multiple, may have nowhere to go: 2^hop further on, the circle has closed. It parts
// the message of that hop in two.
class PatOrder {
 public:
  TUTTI_HOST_DEVICE constexpr explicit PatOrder(int ranks) : ranks_(ranks), hops_(ceil_log2(ranks)) {
    for (int hop = hops_ - 1; hop >= 0; --hop) {
      stays_[hop] = arriving(hop) < travelling(hop) ? position(hop + 1, (travelling(hop) - 1) << (hop + 1)) : -1;
    }
  }

  TUTTI_HOST_DEVICE constexpr int hops() const { return hops_; }
  // Blocks in front in a hop, and how many come behind them.
  TUTTI_HOST_DEVICE constexpr int travelling(int hop) const { return multiples(hop + 1); }
  TUTTI_HOST_DEVICE constexpr int arriving(int hop) const { return multiples(hop) - multiples(hop + 1); }

  // The messages of a hop. `front` is the place of their first block among those in front.
  struct Piece {
    int front;
    int count;
  };
  TUTTI_HOST_DEVICE constexpr int pieces(int hop) const {
    return stays_[hop] >= 0 && stays_[hop] < travelling(hop) - 1 ? 2 : 1;
  }
  TUTTI_HOST_DEVICE constexpr Piece piece(int hop, int number) const {
    if (pieces(hop) == 1) return {0, arriving(hop)};
    return number == 0 ? Piece{0, stays_[hop]} : Piece{stays_[hop] + 1, arriving(hop) - stays_[hop]};
  }
  // Where in the order the blocks of a piece lie once they have arrived.
  TUTTI_HOST_DEVICE constexpr int behind(int hop, int number) const {
    return travelling(hop) + (number == 0 ? 0 : stays_[hop]);
  }

  TUTTI_HOST_DEVICE constexpr int offset(int place) const {
    int offset = 0;
    for (int hop = 0; hop < hops_; ++hop) {
      if (place < travelling(hop)) continue;
      offset += 1 << hop;
      place -= travelling(hop);
      if (stays_[hop] >= 0 && place >= stays_[hop]) ++place;
    }
    return offset;
  }

 private:
  // Multiples of 2^level below the number of ranks.
  TUTTI_HOST_DEVICE constexpr int multiples(int level) const { return ((ranks_ - 1) >> level) + 1; }

  // The place of an offset that is a multiple of 2^level, from the hops at `level` and above.
  TUTTI_HOST_DEVICE constexpr int position(int level, int offset) const {
    int place = 0;
    for (int hop = hops_ - 1; hop >= level; --hop) {
      if ((offset >> hop & 1) == 0) continue;
      if (stays_[hop] >= 0 && place > stays_[hop]) --place;
      place += travelling(hop);
    }
    return place;
  }

  int ranks_;
  int hops_;
  int stays_[17] = {};  // place of the block that does not travel in a hop, or -1
};

struct PatAllGather {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    if (layout.ranks == 1) return 1;
    const PatOrder order(layout.ranks);
    int steps = 1 + layout.ranks;
    for (int hop = 0; hop < order.hops(); ++hop) steps += 2 * order.pieces(hop);
    return steps;
  }

  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    if (ranks == 1) return alone(false);
    if (index == 0) return copy(input(0), scratch(0));
    --index;
    const PatOrder order(ranks);
    for (int hop = order.hops() - 1; hop >= 0; --hop) {
      const int pieces = order.pieces(hop);
      if (index >= 2 * pieces) {
        index -= 2 * pieces;
        continue;
      }
      const int number = index % pieces;
      const PatOrder::Piece piece = order.piece(hop, number);
      const int distance = 1 << hop;
      if (index < pieces) {
        const PeerSet to = only(wrapped(layout.rank + distance, ranks));
        if (hop == order.hops() - 1) return readable(send(input(0), to));
        return send(scratch(piece.front), to, piece.count);
      }
      const PeerSet from = only(wrapped(layout.rank - distance + ranks, ranks));
      return receive(from, scratch(order.behind(hop, number)), piece.count);
    }
    if (index == 0) return copy(input(0), output(layout.rank));
    return copy(scratch(index), output(wrapped(layout.rank - order.offset(index) + ranks, ranks)));
  }
};

// The same trees towards their roots, the nearest ranks first.
struct PatReduceScatter {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int) {
    return layout.ranks == 1 ? 1 : PatAllGather::steps(layout, 0) - 1;
  }

  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int, int index) {
    const int ranks = layout.ranks;
    if (ranks == 1) return alone(true);
    const PatOrder order(ranks);
    if (index < ranks) {
      const int block = wrapped(layout.rank - order.offset(index) + ranks, ranks);
      return contributing(copy(input(block), scratch(index)));
    }
    index -= ranks;
    int hop = 0;
    for (; index >= 2 * order.pieces(hop); ++hop) index -= 2 * order.pieces(hop);
    const int pieces = order.pieces(hop);
    const int number = index % pieces;
    const PatOrder::Piece piece = order.piece(hop, number);
    const int distance = 1 << hop;
    if (index < pieces) {
      const PeerSet to = only(wrapped(layout.rank - distance + ranks, ranks));
      return send(scratch(order.behind(hop, number)), to, piece.count);
    }
    const PeerSet from = only(wrapped(layout.rank + distance, ranks));
    const Operand partial = scratch(piece.front);
    if (hop == order.hops() - 1) return finishing(reduce(partial, from, output(0)));
    return reduce(partial, from, partial, piece.count);
  }
};

}  // namespace tutti
