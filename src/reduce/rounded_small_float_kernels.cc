// Sums and products of f16, bf16 and fp8 in f32, rounded at every node: what reproducible calls ask for.

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/rounded_small_float_kernels.cc"
#include "hwy/foreach_target.h"
#include "reduce/small_float_policies-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const KernelRow* find_rounded_small_float(ReduceOp::Kind kind, DataType type) {
  switch (type) {
    case DataType::kF16:
      return small_float_row<RoundedNodes<F16Sum>, RoundedNodes<F16Product>, RoundedNodes<MultipliedSmallSum<F16Sum>>>(
          kind);
    case DataType::kBF16:
      return small_float_row<RoundedNodes<BF16Sum>, RoundedNodes<BF16Product>,
                             RoundedNodes<MultipliedSmallSum<BF16Sum>>>(kind);
    case DataType::kF8E4M3:
      return small_float_row<RoundedNodes<F8E4M3Sum>, RoundedNodes<F8E4M3Product>,
                             RoundedNodes<MultipliedSmallSum<F8E4M3Sum>>>(kind);
    default:
      return small_float_row<RoundedNodes<F8E5M2Sum>, RoundedNodes<F8E5M2Product>,
                             RoundedNodes<MultipliedSmallSum<F8E5M2Sum>>>(kind);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_rounded_small_float);

const KernelRow& rounded_small_float_kernels(ReduceOp::Kind kind, DataType type) {
  return *HWY_DYNAMIC_DISPATCH(find_rounded_small_float)(kind, type);
}

}  // namespace tutti
#endif
