#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/line.h"

namespace tutti {

// Where the threads of one rank sleep, as the other ranks of its host see it: in its area of the segment. Whoever
// publishes something that the rank may wait for takes away what says that it sleeps, and then wakes it, so that one
// of several wakes it and the others find it awake.
struct alignas(128) SleepWords {
  static constexpr std::size_t kBells = 14;

  // The low half is a futex: odd while threads sleep on it, and one more whenever they are woken.
  Word futex;
  // Each the name of a bell (bell.h) that wakes one thread; 0: it is awake.
  std::array<Word, kBells> bells;
  // Not 0: some rank could not ring a bell of this one.
  Word out_of_earshot;
};
static_assert(sizeof(SleepWords) == 128);
static_assert(std::endian::native == std::endian::little, "the low half of a word is its first");

// In the segment's header: how many of all SleepWords say that somebody sleeps. While it is 0 a publisher need not look
// any further, and reading it costs nothing then: the line stays in everybody's cache.
struct alignas(128) SleepCount {
  // A rank of this host cannot settle_all_processors(): look at each word in turn (glance_in_turn()), always.
  static constexpr std::uint64_t kInTurn = std::uint64_t{1} << 63;

  Word asleep;
};
static_assert(sizeof(SleepCount) == 128);

}  // namespace tutti
