#pragma once

#include <cstddef>
#include <cstdint>

#include "schedule/step.h"

namespace tutti {

// Binds chunks to elements for one call: the only place that multiplies an index by a size.
//
// A call is cut into rounds. In each round every block contributes `chunks` chunks of at most `chunk_elements`; the
// last round cuts what is left evenly, in units of `granule` elements, with a short tail. A call of zero elements has
// one round of empty chunks.
class Binding {
 public:
  struct Extent {
    std::size_t first;     // in elements from the start of the space
    std::size_t elements;  // may be 0
  };

  Binding() = default;
  // granule: elements per 64 bytes, so that ranks write to lines of their own.
  TUTTI_HOST_DEVICE Binding(std::size_t count, int chunks, std::size_t chunk_elements, std::size_t granule)
      : count_(count), chunk_elements_(chunk_elements), granule_(granule), chunks_(chunks) {
    const std::size_t per_round = chunk_elements * static_cast<std::size_t>(chunks);
    rounds_ = count == 0 ? 1 : (count - 1) / per_round + 1;
    const std::size_t left = count - (rounds_ - 1) * per_round;
    const std::size_t even = (left + static_cast<std::size_t>(chunks) - 1) / static_cast<std::size_t>(chunks);
    last_elements_ = (even + granule - 1) / granule * granule;
    if (last_elements_ > chunk_elements) last_elements_ = chunk_elements;
  }

  TUTTI_HOST_DEVICE std::size_t rounds() const { return rounds_; }
  TUTTI_HOST_DEVICE std::size_t chunk_elements() const { return chunk_elements_; }

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
  std::size_t granule_ = 1;
  std::size_t rounds_ = 1;
  int chunks_ = 1;
};

}  // namespace tutti
