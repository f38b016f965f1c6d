#pragma once

#include <algorithm>
#include <cstddef>

#include "perf/bare/memory.h"
#include "perf/bare/pair.h"
#include "perf/bare/vectors.h"

namespace tutti::perf::bare {

// All-reduce of private buffers between two threads through slots in shared memory. Slots are taken from a ring one
// after the other, so that a ring longer than the reader's cache lets lines fall out of it before they are written
// again. Both threads call the same functions in the same order. Waits spin; nothing else blocks or allocates.
class SlotExchange {
 public:
  // A message takes at most a quarter of the ring.
  explicit SlotExchange(std::size_t ring_bytes)
      : ring_(ring_bytes / sizeof(float)),
        slots_{{Memory::Kind::kShared, ring_bytes}, {Memory::Kind::kShared, ring_bytes}},
        results_(Memory::Kind::kShared, ring_bytes) {}

  std::size_t largest() const { return ring_ / 4; }

  // Each thread copies all of its values in and reduces everything: one wait. count ≤ largest().
  template <Store slots>
  void whole(int rank, const float* in, float* out, std::size_t count) {
    Own& own = own_[rank];
    const std::size_t at = take(own, count);
    copy<slots>(in, slots_[rank].floats() + at, count);
    announce_and_wait(copied_in_, rank, ++own.copied_in);
    add<Store::kOrdinary>(in, slots_[1 - rank].floats() + at, out, count);
  }

  // Chunk by chunk: each thread copies in what the other reduces, reduces its half into its output and a slot, and
  // copies the other's half out: two waits a chunk.
  template <Store slots, Store output>
  void slices(int rank, const float* in, float* out, std::size_t count, std::size_t chunk) {
    Own& own = own_[rank];
    for (std::size_t done = 0; done < count; done += chunk) {
      const std::size_t length = std::min(chunk, count - done);
      const std::size_t half = length / 2 / kAlign * kAlign;
      const std::size_t begin[2] = {0, half};
      const std::size_t size[2] = {half, length - half};
      const std::size_t mine = begin[rank], theirs = begin[1 - rank];
      const std::size_t at = take(own, length);
      copy<slots>(in + done + theirs, slots_[rank].floats() + at + theirs, size[1 - rank]);
      announce_and_wait(copied_in_, rank, ++own.copied_in);
      add_to_both<output, slots>(in + done + mine, slots_[1 - rank].floats() + at + mine, out + done + mine,
                                 results_.floats() + at + mine, size[rank]);
      announce_and_wait(reduced_, rank, ++own.reduced);
      copy<output>(results_.floats() + at + theirs, out + done + theirs, size[1 - rank]);
    }
  }

 private:
  static constexpr std::size_t kAlign = 32;  // floats in a pair of lines

  struct alignas(128) Own {
    std::uint64_t copied_in = 0;
    std::uint64_t reduced = 0;
    std::size_t next = 0;
  };

  // Never overlaps the message before, which the other thread may still be reading. It has ended the one before that:
  // it has published since.
  std::size_t take(Own& own, std::size_t count) const {
    const std::size_t size = (count + kAlign - 1) / kAlign * kAlign;
    if (own.next + size > ring_) own.next = 0;
    const std::size_t at = own.next;
    own.next += size;
    return at;
  }

  static void announce_and_wait(Line (&lines)[2], int rank, std::uint64_t number) {
    lines[rank].publish(number);
    lines[1 - rank].wait_for(number);
  }

  std::size_t ring_;
  Memory slots_[2];
  Memory results_;
  Line copied_in_[2];
  Line reduced_[2];
  Own own_[2];
};

}  // namespace tutti::perf::bare
