#pragma once

#include <cstddef>

#include "schedule/step.h"

namespace tutti {

// The blocks of one side, input or output, of a vector form: how many elements each has, and where it begins, in
// elements from the start of the buffer. Plain arrays for host and device; they belong to whoever issued the call.
struct BlockList {
  const std::size_t* counts = nullptr;
  const std::size_t* offsets = nullptr;
  std::size_t blocks = 0;
};

// Both sides, as one rank knows them: all blocks on one side and its own on the other in all_gather_v and
// reduce_scatter_v; what it gives to each rank and takes from each in all_to_all_v.
struct BlockTable {
  BlockList input;
  BlockList output;
};

// The block whose length a step's value has: the one that it comes from, else the one that it goes to. The verifier
// proves that both are the same, and the same at the other end of each message.
TUTTI_HOST_DEVICE inline std::size_t block_elements(const BlockTable& table, const Step& step) {
  if (step.source_space == Space::kInput) return table.input.counts[step.source];
  if (step.source_space == Space::kOutput) return table.output.counts[step.source];
  return table.output.counts[step.destination];
}

// Where a block begins. REQUIRES: space is kInput or kOutput.
TUTTI_HOST_DEVICE inline std::size_t block_offset(const BlockTable& table, Space space, std::uint32_t block) {
  return (space == Space::kInput ? table.input : table.output).offsets[block];
}

TUTTI_HOST_DEVICE inline std::size_t longest_block(const BlockTable& table) {
  std::size_t longest = 0;
  for (std::size_t block = 0; block < table.input.blocks; ++block) {
    if (table.input.counts[block] > longest) longest = table.input.counts[block];
  }
  for (std::size_t block = 0; block < table.output.blocks; ++block) {
    if (table.output.counts[block] > longest) longest = table.output.counts[block];
  }
  return longest;
}

}  // namespace tutti
