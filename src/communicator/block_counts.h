#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/block_table.h"

namespace tutti {

// The blocks of one call of a vector form: a copy of the caller's counts and offsets, from which the call's BlockTable
// is made. Immutable, any thread. Making one allocates once.
class BlockCounts {
 public:
  // One side as the caller passed it. No offsets: the blocks lie one after the other.
  struct Side {
    std::span<const std::size_t> counts;
    std::span<const std::size_t> offsets;
  };
  // REQUIRES: offsets have as many entries as counts, or none.
  BlockCounts(const Side& input, const Side& output);
  BlockCounts(const BlockCounts&) = delete;
  BlockCounts& operator=(const BlockCounts&) = delete;

  const BlockTable& table() const { return table_; }
  // Elements of all blocks of the side that has more.
  std::size_t larger_side() const { return larger_side_; }
  // Of the counts of the side that has more blocks.
  std::uint32_t digest() const;

 private:
  std::vector<std::size_t> numbers_;  // what table_ points to
  BlockTable table_;
  std::size_t larger_side_ = 0;
};

}  // namespace tutti
