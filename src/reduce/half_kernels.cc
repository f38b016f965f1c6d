// Sums of f16 and bf16 in f32, rounded once: what training mostly asks for.

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/half_kernels.cc"
#include "hwy/foreach_target.h"
#include "reduce/float_policies-inl.h"
#include "reduce/small_floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const KernelRow* find_half_sum(DataType type) {
  return type == DataType::kF16 ? &kKernelsFromOne<FloatSum<F16Elements>> : &kKernelsFromOne<FloatSum<BF16Elements>>;
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_half_sum);

const KernelRow& half_sum_kernels(DataType type) { return *HWY_DYNAMIC_DISPATCH(find_half_sum)(type); }

}  // namespace tutti
#endif
