#pragma once

#include <cstddef>
#include <cstdint>

#include "schedule/block_table.h"
#include "schedule/step.h"

namespace tutti {

// Binds chunks to elements for one call: the only place that multiplies an index by a size.
//
// A call is cut into rounds. In each round every block contributes `chunks` chunks of at most `chunk_elements`; the
// last round cuts what is left evenly, in units of `granule` elements, with a short tail. A call of zero elements has
// one round of empty chunks.
//
// In a vector form (block_table.h) a block is one chunk of at most `chunk_elements` a round, and a block that has ended
// has empty chunks in the rounds that others still need. After round 0, messages of empty chunks are neither sent nor
// expected: both ends know the length of the block (docs/schedule.md says why nobody then waits for ever).
class Binding {
 public:
  struct Extent {
    std::size_t first;     // in elements from the start of the space
    std::size_t elements;  // may be 0
  };

  Binding() = default;
  // granule: elements per 64 bytes, so that ranks write to lines of their own; a power of two.
  TUTTI_HOST_DEVICE Binding(std::size_t count, int chunks, std::size_t chunk_elements, std::size_t granule)
      : count_(count), chunk_elements_(chunk_elements), chunks_(chunks) {
    const std::size_t per_round = chunk_elements * static_cast<std::size_t>(chunks);
    // Short calls feel every division: most have one round and one chunk.
    rounds_ = count <= per_round ? 1 : (count - 1) / per_round + 1;
    const std::size_t left = count - (rounds_ - 1) * per_round;
    const std::size_t even =
        chunks == 1 ? left : (left + static_cast<std::size_t>(chunks) - 1) / static_cast<std::size_t>(chunks);
    last_elements_ = (even + granule - 1) & ~(granule - 1);
    if (last_elements_ > chunk_elements) last_elements_ = chunk_elements;
  }
  // Of a vector form; the table outlives the binding.
  TUTTI_HOST_DEVICE Binding(const BlockTable& blocks, std::size_t chunk_elements, std::size_t granule)
      : Binding(longest_block(blocks), 1, chunk_elements, granule) {
    blocks_ = &blocks;
  }

  TUTTI_HOST_DEVICE std::size_t rounds() const { return rounds_; }
  TUTTI_HOST_DEVICE std::size_t chunk_elements() const { return chunk_elements_; }

  // Null: the blocks have one size.
  TUTTI_HOST_DEVICE const BlockTable* blocks() const { return blocks_; }

  // Elements of chunk number `index` of a step's value in one round.
  TUTTI_HOST_DEVICE std::size_t elements(const Step& step, std::uint32_t index, std::size_t round) const {
    if (blocks_ == nullptr) return elements(step.shape + index, round);
    const std::size_t count = block_elements(*blocks_, step);
    const std::size_t begin = round * chunk_elements_;
    if (begin >= count) return 0;
    return count - begin < chunk_elements_ ? count - begin : chunk_elements_;
  }

  // Where a chunk of the input or the output begins, in elements from the start of the space.
  TUTTI_HOST_DEVICE std::size_t first(Space space, std::uint32_t chunk, std::size_t round) const {
    if (blocks_ == nullptr) return extent(chunk, round).first;
    return block_offset(*blocks_, space, chunk) + round * chunk_elements_;
  }

  // What follows is about blocks of one size, and about the longest block of a vector form: elements(0, round).

  // Elements of a chunk in one round. Only the place of the chunk within its block matters.
  TUTTI_HOST_DEVICE std::size_t elements(std::uint32_t chunk, std::size_t round) const {
    if (round + 1 < rounds_) return chunk_elements_;
    const std::size_t begin = start(chunk % static_cast<std::uint32_t>(chunks_), round);
    const std::size_t left = count_ > begin ? count_ - begin : 0;
    return left < last_elements_ ? left : last_elements_;
  }

  // Where a chunk of the input or the output lies.
  TUTTI_HOST_DEVICE Extent extent(std::uint32_t chunk, std::size_t round) const {
    const std::uint32_t block = chunk / static_cast<std::uint32_t>(chunks_);
    std::size_t begin = start(chunk % static_cast<std::uint32_t>(chunks_), round);
    if (begin > count_) begin = count_;
    return {block * count_ + begin, elements(chunk, round)};
  }

  // Where a chunk of scratch begins, in elements: scratch chunks are full-sized and lie side by side.
  TUTTI_HOST_DEVICE std::size_t scratch_first(std::uint32_t chunk) const { return chunk * chunk_elements_; }

 private:
  TUTTI_HOST_DEVICE std::size_t start(std::uint32_t place, std::size_t round) const {
    const std::size_t size = round + 1 < rounds_ ? chunk_elements_ : last_elements_;
    return round * chunk_elements_ * static_cast<std::size_t>(chunks_) + place * size;
  }

  std::size_t count_ = 0;
  std::size_t chunk_elements_ = 1;
  std::size_t last_elements_ = 0;
  std::size_t rounds_ = 1;
  int chunks_ = 1;
  const BlockTable* blocks_ = nullptr;
};

}  // namespace tutti
