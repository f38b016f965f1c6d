// Sums and products of integers modulo 2^bits, and the bitwise operations.

#include <cstdint>

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/wrapping_kernels.cc"
#include "hwy/foreach_target.h"
#include "reduce/wrapping_policies-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

struct BitAnd : PlainElements<std::uint8_t> {
  explicit BitAnd(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::And(a, b);
  }
};

struct BitOr : PlainElements<std::uint8_t> {
  explicit BitOr(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Or(a, b);
  }
};

struct BitXor : PlainElements<std::uint8_t> {
  explicit BitXor(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Xor(a, b);
  }
};

template <class Sum, class Product>
const KernelRow* wrapping_row(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kSum ? &kKernels<Sum> : &kKernels<Product>;
}

const KernelRow* find_wrapping(ReduceOp::Kind kind, std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return wrapping_row<WrappingSum<std::uint8_t>, WrappingByteProduct>(kind);
    case 2:
      return wrapping_row<WrappingSum<std::uint16_t>, WrappingProduct<std::uint16_t>>(kind);
    case 4:
      return wrapping_row<WrappingSum<std::uint32_t>, WrappingProduct<std::uint32_t>>(kind);
    default:
      return wrapping_row<WrappingSum<std::uint64_t>, WrappingProduct<std::uint64_t>>(kind);
  }
}

const KernelRow* find_bitwise(ReduceOp::Kind kind) {
  switch (kind) {
    case ReduceOp::Kind::kBand:
      return &kKernels<BitAnd>;
    case ReduceOp::Kind::kBor:
      return &kKernels<BitOr>;
    default:
      return &kKernels<BitXor>;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_wrapping);
HWY_EXPORT(find_bitwise);

const KernelRow& wrapping_kernels(ReduceOp::Kind kind, std::size_t element_bytes) {
  return *HWY_DYNAMIC_DISPATCH(find_wrapping)(kind, element_bytes);
}

const KernelRow& bitwise_kernels(ReduceOp::Kind kind) { return *HWY_DYNAMIC_DISPATCH(find_bitwise)(kind); }

}  // namespace tutti
#endif
