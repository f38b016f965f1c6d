#pragma once

#include "schedule/step.h"

// How algorithms over powers of two serve other numbers of ranks, in the way of the reproducible tree: with p the
// largest power of two and r = n - p, ranks (0,1), (2,3) … (2r-2,2r-1) are combined first, the lower one goes on.
namespace tutti {

TUTTI_HOST_DEVICE constexpr int floor_log2(int n) {
  int log = 0;
  while (n >> (log + 1)) ++log;
  return log;
}

TUTTI_HOST_DEVICE constexpr int ceil_log2(int n) { return n <= 1 ? 0 : floor_log2(n - 1) + 1; }

TUTTI_HOST_DEVICE constexpr bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

struct Fold {
  int levels;    // log2(p)
  int power;     // p
  int extra;     // r
  bool folded;   // this rank is one of a pair
  bool outside;  // it is the higher one, which hands over its data and waits for the result
  int own;       // its place among the p, if it has one

  TUTTI_HOST_DEVICE constexpr Fold(int ranks, int rank)
      : levels(floor_log2(ranks)),
        power(1 << levels),
        extra(ranks - power),
        folded(rank < 2 * extra),
        outside(folded && rank % 2 == 1),
        own(folded ? rank / 2 : rank - extra) {}

  // The rank at a place among the p.
  TUTTI_HOST_DEVICE constexpr int rank_of(int place) const { return place < extra ? 2 * place : place + extra; }
  // Whom this rank meets when places differ in one bit.
  TUTTI_HOST_DEVICE constexpr PeerSet partner(int bit) const { return static_cast<PeerSet>(rank_of(own ^ (1 << bit))); }
};

}  // namespace tutti
