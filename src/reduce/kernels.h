#pragma once

// The register kernels: one pass over 1..8 sources, the whole tree in registers. Which instruction set they use is
// decided by the lookup functions here, so a call looks up once and then calls plain pointers. Any thread; no kernel
// blocks, allocates, or touches memory outside [0, elements) of its sources and destinations.

#include <cstddef>
#include <cstdint>

#include "reduce/float_format.h"
#include "tutti/types.h"

namespace tutti {

struct Pass {
  const void* const* sources = nullptr;
  void* dst = nullptr;
  void* dst2 = nullptr;  // or null
  std::size_t elements = 0;
  bool streams = false;       // dst2, or dst where there is none, is written past the caches
  bool streams_both = false;  // … and dst too, where it is aligned like dst2
  double divisor = 0;         // float sums: divides the result, unless zero
  // multiplied sums: the source that is multiplied, and the factor, for integers modulo 2^64.
  int multiplied_source = 0;
  double factor = 1;
  std::uint64_t whole_factor = 1;
  FloatFormat format{};  // float_extreme_kernels: of the elements
  Rounding rounding{};   // of small floats, in f32
};

using Kernel = void (*)(const Pass&);

inline constexpr int kMaxFused = 8;
inline constexpr int kMaxFusedSmall = 4;  // of small floats, whose kernels are long and take the compiler long

// Kernels by source count. A count of one is there only where sums may divide or multiply.
struct KernelRow {
  Kernel by_sources[kMaxFused + 1];

  Kernel operator[](int sources) const { return by_sources[sources]; }
};

// Integers of 1, 2, 4 or 8 bytes, modulo 2^bits. kind: kSum, kProd.
const KernelRow& wrapping_kernels(ReduceOp::Kind kind, std::size_t element_bytes);
// Elements are bytes. kind: kBand, kBor, kBxor.
const KernelRow& bitwise_kernels(ReduceOp::Kind kind);
// kind: kMin, kMax; integer types.
const KernelRow& integer_extreme_kernels(ReduceOp::Kind kind, DataType type);
// kind: kMin, kMax; any floating type of that size, told apart by Pass::format.
const KernelRow& float_extreme_kernels(ReduceOp::Kind kind, std::size_t element_bytes);
// kind: kSum, kProd; type: kF32, kF64.
const KernelRow& float_kernels(ReduceOp::Kind kind, DataType type);
// Sums in which one source is multiplied. type: integers, kF32, kF64.
const KernelRow& multiplied_sum_kernels(DataType type);
// f32 elements that stand for a smaller type: Pass::rounding is applied after every operation. kind: kSum, kProd.
const KernelRow& rounding_kernels(ReduceOp::Kind kind);
// f16, bf16 or fp8 in f32, rounded once. kind: kSum, kProd, or kPreMulSum, where one source is multiplied and the
// product rounded to the type of Pass::rounding.
const KernelRow& small_float_kernels(ReduceOp::Kind kind, DataType type);
// The same, rounded at every node.
const KernelRow& rounded_small_float_kernels(ReduceOp::Kind kind, DataType type);

// Between a small floating type and f32; narrow rounds to nearest even and writes canonical NaNs.
struct Conversion {
  void (*widen)(const void* source, float* dst, std::size_t elements);
  void (*narrow)(const float* source, void* dst, std::size_t elements);
};
// type: kF16, kBF16, kF8E4M3, kF8E5M2.
const Conversion& conversion(DataType type);

}  // namespace tutti
