#pragma once

#include <cstddef>

#include "reduce/store_kind.h"
#include "tutti/types.h"

namespace tutti {

// One pass of a reduction: dst[i] = output_map(op over sources s of input_map_s(sources[s][i])), i < elements.
//
// The sources are combined by the reproducible tree: with p the largest power of two <= n and r = n - p, sources
// (0,1), (2,3) … (2r-2, 2r-1) are combined first; the p results, in order, are combined in a perfect binary tree,
// lower operand on the left. f16, bf16 and fp8 are computed in f32; they are rounded to their type at every node when
// `round_every_node` is set (Options::reproducible), else once, when stored. The sum that avg divides is such a node
// too: it does not matter whether one pass or two make a sum and map it. An operation that needs_all_at_once() is
// rounded once in any case. The input map's product is always rounded, because some ranks use it at once and others
// receive it.
//
// Results are the same bits on every processor, and in threads of every floating-point mode, whose flags stay as they
// are: NaNs that an operation makes or passes on are canonical. One source without maps is copied as it is.
//
// Any thread; never blocks, never allocates. Sources may be misaligned, but are multiples of the element size apart
// from an element-aligned address. dst and dst2 may equal a source exactly; any other overlap is undefined.
struct Reduction {
  DataType type = DataType::kU8;
  ReduceOp op = kSum;
  int ranks = 1;      // divisor of avg, used when `last`
  bool last = false;  // apply the output map
  bool round_every_node = false;
};

inline constexpr int kMaxSources = 1024;

// mapped_source: index of the source to which the input map (the pre_mul_sum scalar) applies, or -1.
// dst2: a second destination that receives the same bits, or null.
// stores: how the last destination is written: dst2, or dst where there is no other.
// first_stores: how dst is written where there is dst2; past the caches only together with that.
void reduce(const Reduction& reduction, const void* const* sources, int source_count, int mapped_source, void* dst,
            void* dst2, std::size_t elements, StoreKind stores = StoreKind::kOrdinary,
            StoreKind first_stores = StoreKind::kOrdinary);

// dst = output_map(input_map(source)) with the maps that are asked for; a plain copy when neither changes anything.
void map_elements(const Reduction& reduction, bool first, const void* source, void* dst, std::size_t elements,
                  StoreKind stores = StoreKind::kOrdinary);

// Whether floats are computed with, so that it matters how a thread does that. (Extremes are found on the bits.)
bool computes_with_floats(const Reduction& reduction);

// Whether `first` or `last` changes values for this op and type: avg and pre_mul_sum with a factor other than one.
bool first_changes(ReduceOp op);
bool last_changes(ReduceOp op, int ranks);

// Whether sums of some ranks' values may exceed their type though the result does not: averages of f16 and fp8, whose
// largest values are 65504, 57344 and 448. All values must be combined in one pass. (Sums of bf16, f32 and f64
// exceed their type only where values are above its largest divided by the ranks.)
bool needs_all_at_once(ReduceOp op, DataType type);

}  // namespace tutti
