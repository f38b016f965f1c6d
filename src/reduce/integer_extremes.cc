// Minimum and maximum of integers.

#include <cstdint>

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/integer_extremes.cc"
#include "hwy/foreach_target.h"
#include "reduce/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

template <class T>
struct IntegerMinimum : PlainElements<T> {
  explicit IntegerMinimum(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Min(a, b);
  }
};

template <class T>
struct IntegerMaximum : PlainElements<T> {
  explicit IntegerMaximum(const Pass&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::Max(a, b);
  }
};

template <class T>
const KernelRow* integer_extreme_row(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kMin ? &kKernels<IntegerMinimum<T>> : &kKernels<IntegerMaximum<T>>;
}

const KernelRow* find_integer_extreme(ReduceOp::Kind kind, DataType type) {
  switch (type) {
    case DataType::kI8:
      return integer_extreme_row<std::int8_t>(kind);
    case DataType::kU8:
      return integer_extreme_row<std::uint8_t>(kind);
    case DataType::kI16:
      return integer_extreme_row<std::int16_t>(kind);
    case DataType::kU16:
      return integer_extreme_row<std::uint16_t>(kind);
    case DataType::kI32:
      return integer_extreme_row<std::int32_t>(kind);
    case DataType::kU32:
      return integer_extreme_row<std::uint32_t>(kind);
    case DataType::kI64:
      return integer_extreme_row<std::int64_t>(kind);
    default:
      return integer_extreme_row<std::uint64_t>(kind);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_integer_extreme);

const KernelRow& integer_extreme_kernels(ReduceOp::Kind kind, DataType type) {
  return *HWY_DYNAMIC_DISPATCH(find_integer_extreme)(kind, type);
}

}  // namespace tutti
#endif
