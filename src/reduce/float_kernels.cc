// Sums and products of f32 and f64, and of f32 that stands for a smaller type.

#include "reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/float_kernels.cc"
#include "hwy/foreach_target.h"
#include "reduce/float_policies-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

const KernelRow* find_float(ReduceOp::Kind kind, DataType type) {
  if (type == DataType::kF32) {
    return kind == ReduceOp::Kind::kSum ? &kKernelsFromOne<FloatSum<PlainElements<float>>>
                                        : &kKernels<FloatProduct<PlainElements<float>>>;
  }
  return kind == ReduceOp::Kind::kSum ? &kKernelsFromOne<FloatSum<PlainElements<double>>>
                                      : &kKernels<FloatProduct<PlainElements<double>>>;
}

const KernelRow* find_rounding(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kSum ? &kKernelsFromOne<RoundedAtEveryNode<FloatSum<PlainElements<float>>>>
                                      : &kKernels<RoundedAtEveryNode<FloatProduct<PlainElements<float>>>>;
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(find_float);
HWY_EXPORT(find_rounding);

const KernelRow& float_kernels(ReduceOp::Kind kind, DataType type) {
  return *HWY_DYNAMIC_DISPATCH(find_float)(kind, type);
}

const KernelRow& rounding_kernels(ReduceOp::Kind kind) { return *HWY_DYNAMIC_DISPATCH(find_rounding)(kind); }

}  // namespace tutti
#endif
