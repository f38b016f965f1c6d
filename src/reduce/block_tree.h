#pragma once

#include <cstddef>

#include "reduce/plan.h"
#include "reduce/store_kind.h"

namespace tutti {

// Evaluates the tree for one block of elements at a time, with everything between sources and destinations in a few
// blocks on the stack (about 40 KiB): for more sources than a kernel takes, and for maps and conversions that it does
// not do itself. Used by one thread; neither blocks nor allocates.
class BlockTree {
 public:
  // mapped_source: the one that is multiplied by the plan's factor, or -1.
  BlockTree(const ReductionPlan& plan, DataType type, int divisor, std::size_t elements, int mapped_source);

  // stores: how dst2, or dst where there is none, is written.
  void evaluate(const void* const* sources, int source_count, void* dst, void* dst2, std::size_t elements,
                StoreKind stores);

 private:
  static constexpr std::size_t kBlockBytes = 2048;
  static constexpr int kLeaves = 4;  // of the tree that one kernel call takes, each with one or two sources
  static constexpr int kLevels = 10;
  static_assert(kMaxSources <= kLeaves << (kLevels - 1) && 2 * kLeaves <= kMaxFused);

  struct alignas(64) Block {
    std::byte bytes[kBlockBytes];
  };

  void evaluate_block(const void* const* sources, int source_count, void* out, std::size_t at, std::size_t elements);
  // Combines the sources from `first`, with the output map if this is the root.
  void combine_sources(const void* const* sources, int first, int count, bool root, void* out, std::size_t at,
                       std::size_t elements);
  void combine_lanes(const void* const* sources, int count, bool root, void* out, std::size_t elements);
  const void* lanes_of(const void* source, bool mapped, Block& block, std::size_t at, std::size_t elements);
  void fill_factors(DataType type, std::size_t elements);

  const ReductionPlan& plan_;
  const int divisor_;
  const int mapped_source_;
  Block factors_;
  Block inputs_[kMaxFused];
  Block levels_[kLevels];
  Block result_;  // on its way to a destination that is written past the caches
};

}  // namespace tutti
