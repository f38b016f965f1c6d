// Sums and products of integers modulo 2^bits, and the bitwise operations.

#include <cstdint>

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/wrapping_kernels.cc"
#include "hwy/foreach_target.h"
#include "reduce/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

template <class T>
struct WrappingSum : PlainElements<T> {
  explicit WrappingSum(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Add(a, b);
  }
};

template <class T>
struct WrappingProduct : PlainElements<T> {
  explicit WrappingProduct(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Mul(a, b);
  }
};

// There is no multiplication of bytes: the low byte of a product of words is the same.
template <>
struct WrappingProduct<std::uint8_t> {
  using Stored = std::uint8_t;
  using Lane = std::uint16_t;

  explicit WrappingProduct(const Pass&) {}
  template <class Access, class D>
  HWY_INLINE hn::Vec<D> load(Access access, D d, const Stored* from) const {
    return hn::PromoteTo(d, access.load(hn::Rebind<Stored, D>(), from));
  }
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Mul(a, b);
  }
  template <class Access, class D>
  HWY_INLINE void store(Access access, D d, hn::Vec<D> value, Stored* to) const {
    const hn::Rebind<Stored, D> bytes;
    const auto low = hn::BitCast(hn::RebindToSigned<D>(), hn::And(value, hn::Set(d, Lane{0xff})));
    access.store(bytes, hn::DemoteTo(bytes, low), to);
  }
};

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

template <class T>
const KernelRow* wrapping_row(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kSum ? &kKernels<WrappingSum<T>> : &kKernels<WrappingProduct<T>>;
}

const KernelRow* find_wrapping(ReduceOp::Kind kind, std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return wrapping_row<std::uint8_t>(kind);
    case 2:
      return wrapping_row<std::uint16_t>(kind);
    case 4:
      return wrapping_row<std::uint32_t>(kind);
    default:
      return wrapping_row<std::uint64_t>(kind);
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
