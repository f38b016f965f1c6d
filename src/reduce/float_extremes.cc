// Minimum and maximum of every floating type, on the integers that order as the floats do: -0 before +0, and NaN (of
// either sign) where it wins.

#include <cstdint>
#include <limits>

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/float_extremes.cc"
#include "hwy/foreach_target.h"
#include "reduce/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

// T: the signed integer of the float's size.
//
// Values are keys: integers that order as the floats do, moved along by the number of NaNs of one sign. The NaNs of
// the other sign, which lie at the wrong end, wrap around to those that win.
template <class T, bool kMinimum>
class FloatExtreme {
 public:
  using Stored = T;
  using Lane = T;

  explicit FloatExtreme(const Pass& pass)
      : nans_(static_cast<T>(kMagnitude - static_cast<T>(pass.format.largest))),
        last_number_(static_cast<T>(kMinimum ? nans_ - static_cast<T>(pass.format.largest) - 1
                                             : static_cast<T>(pass.format.largest) - nans_)),
        canonical_nan_(static_cast<T>(pass.format.canonical_nan)) {}

  template <class Access, class D>
  HWY_INLINE hn::Vec<D> load(Access access, D d, const T* from) const {
    const auto ordered = reorder(d, access.load(d, from));
    const auto nans = hn::Set(d, nans_);
    return kMinimum ? hn::Add(ordered, nans) : hn::Sub(ordered, nans);
  }

  template <class D>
  HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) const {
    if constexpr (kMinimum) {
      return hn::Min(a, b);
    } else {
      return hn::Max(a, b);
    }
  }

  template <class Access, class D>
  HWY_INLINE void store(Access access, D d, hn::Vec<D> key, T* to) const {
    const auto last_number = hn::Set(d, last_number_);
    const auto is_nan = kMinimum ? hn::Lt(key, last_number) : hn::Gt(key, last_number);
    const auto nans = hn::Set(d, nans_);
    const auto code = reorder(d, kMinimum ? hn::Sub(key, nans) : hn::Add(key, nans));
    access.store(d, hn::IfThenElse(is_nan, hn::Set(d, canonical_nan_), code), to);
  }

 private:
  static constexpr T kMagnitude = std::numeric_limits<T>::max();

  // Flips the magnitude of negative values; its own inverse.
  template <class D>
  static HWY_INLINE hn::Vec<D> reorder(D d, hn::Vec<D> code) {
    return hn::Xor(code, hn::And(hn::BroadcastSignBit(code), hn::Set(d, kMagnitude)));
  }

  const T nans_;         // of one sign
  const T last_number_;  // key of the infinity, or largest value, that only NaNs win against
  const T canonical_nan_;
};

template <class T>
const KernelRow* float_extreme_row(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kMin ? &kKernels<FloatExtreme<T, true>> : &kKernels<FloatExtreme<T, false>>;
}

const KernelRow* find_float_extreme(ReduceOp::Kind kind, std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return float_extreme_row<std::int8_t>(kind);
    case 2:
      return float_extreme_row<std::int16_t>(kind);
    case 4:
      return float_extreme_row<std::int32_t>(kind);
    default:
      return float_extreme_row<std::int64_t>(kind);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_float_extreme);

const KernelRow& float_extreme_kernels(ReduceOp::Kind kind, std::size_t element_bytes) {
  return *HWY_DYNAMIC_DISPATCH(find_float_extreme)(kind, element_bytes);
}

}  // namespace tutti
#endif
