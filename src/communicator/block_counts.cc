#include "communicator/block_counts.h"

#include <algorithm>
#include <numeric>

#include "executor/signature.h"

namespace tutti {
namespace {

std::size_t sum(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

BlockCounts::BlockCounts(const Side& input, const Side& output) {
  numbers_.reserve(2 * (input.counts.size() + output.counts.size()));
  const auto add = [this](const Side& side) {
    const std::size_t* begin = numbers_.data() + numbers_.size();
    numbers_.insert(numbers_.end(), side.counts.begin(), side.counts.end());
    if (side.offsets.empty()) {
      std::size_t next = 0;
      for (const std::size_t count : side.counts) {
        numbers_.push_back(next);
        next += count;
      }
    } else {
      numbers_.insert(numbers_.end(), side.offsets.begin(), side.offsets.end());
    }
    return BlockList{begin, begin + side.counts.size(), side.counts.size()};
  };
  table_.input = add(input);
  table_.output = add(output);
  larger_side_ = std::max(sum(input.counts), sum(output.counts));
}

std::uint32_t BlockCounts::digest() const {
  const BlockList& list = table_.input.blocks > table_.output.blocks ? table_.input : table_.output;
  return digest_of({list.counts, list.blocks});
}

}  // namespace tutti
