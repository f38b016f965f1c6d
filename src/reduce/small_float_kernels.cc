// Sums and products of f16, bf16 and fp8 in f32, rounded once: what training mostly asks for.

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/small_float_kernels.cc"
#include "hwy/foreach_target.h"
#include "reduce/small_float_policies-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const KernelRow* find_small_float(ReduceOp::Kind kind, DataType type) {
  switch (type) {
    case DataType::kF16:
      return small_float_row<F16Sum, F16Product, MultipliedSmallSum<F16Sum>>(kind);
    case DataType::kBF16:
      return small_float_row<BF16Sum, BF16Product, MultipliedSmallSum<BF16Sum>>(kind);
    case DataType::kF8E4M3:
      return small_float_row<F8E4M3Sum, F8E4M3Product, MultipliedSmallSum<F8E4M3Sum>>(kind);
    default:
      return small_float_row<F8E5M2Sum, F8E5M2Product, MultipliedSmallSum<F8E5M2Sum>>(kind);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_small_float);

const KernelRow& small_float_kernels(ReduceOp::Kind kind, DataType type) {
  return *HWY_DYNAMIC_DISPATCH(find_small_float)(kind, type);
}

}  // namespace tutti
#endif
