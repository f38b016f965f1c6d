// Sums of integers, f32 and f64 in which one source is multiplied: what pre_mul_sum begins with.

#include <cstdint>
#include <type_traits>

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/multiplied_sums.cc"
#include "hwy/foreach_target.h"
#include "reduce/float_policies-inl.h"
#include "reduce/wrapping_policies-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

// The other sources are multiplied by one, which keeps their bits: cheaper than to ask which source it is.
template <class Sum>
class MultipliedSum : public Sum {
 public:
  using typename Sum::Lane;

  explicit MultipliedSum(const Pass& pass) : Sum(pass) {
    for (Lane& factor : factors_) factor = Lane{1};
    factors_[pass.multiplied_source] =
        std::is_floating_point_v<Lane> ? static_cast<Lane>(pass.factor) : static_cast<Lane>(pass.whole_factor);
  }

  template <class D>
  HWY_INLINE hn::Vec<D> map(D d, hn::Vec<D> value, int source) const {
    return hn::Mul(value, hn::Set(d, factors_[source]));
  }

 private:
  Lane factors_[kMaxFused];
};

const KernelRow* find_multiplied_sum(DataType type) {
  if (type == DataType::kF32) return &kKernelsFromOne<MultipliedSum<FloatSum<PlainElements<float>>>>;
  if (type == DataType::kF64) return &kKernelsFromOne<MultipliedSum<FloatSum<PlainElements<double>>>>;
  switch (element_size(type)) {
    case 1:
      return &kKernelsFromOne<MultipliedSum<WrappingByteSum>>;
    case 2:
      return &kKernelsFromOne<MultipliedSum<WrappingSum<std::uint16_t>>>;
    case 4:
      return &kKernelsFromOne<MultipliedSum<WrappingSum<std::uint32_t>>>;
    default:
      return &kKernelsFromOne<MultipliedSum<WrappingSum<std::uint64_t>>>;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_multiplied_sum);

const KernelRow& multiplied_sum_kernels(DataType type) { return *HWY_DYNAMIC_DISPATCH(find_multiplied_sum)(type); }

}  // namespace tutti
#endif
