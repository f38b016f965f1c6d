#include "reduce/plan.h"

namespace tutti {
namespace {

bool is_extreme(ReduceOp::Kind kind) { return kind == ReduceOp::Kind::kMin || kind == ReduceOp::Kind::kMax; }

// avg and pre_mul_sum are sums with maps.
ReduceOp::Kind sum_or_product(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kProd ? ReduceOp::Kind::kProd : ReduceOp::Kind::kSum;
}

}  // namespace

ReductionPlan::ReductionPlan(const Reduction& reduction, int source_count, bool maps_input)
    : element_bytes(element_size(reduction.type)), lane_bytes(element_bytes) {
  const ReduceOp::Kind kind = reduction.op.kind();
  if (kind >= ReduceOp::Kind::kBand) {
    combine = &bitwise_kernels(kind);
  } else if (is_extreme(kind)) {
    choose_extreme(reduction);
  } else if (is_floating(reduction.type)) {
    choose_float(reduction, source_count, maps_input);
  } else {
    choose_integer(reduction, maps_input);
  }
}

void ReductionPlan::choose_integer(const Reduction& reduction, bool maps_input) {
  combine = &wrapping_kernels(sum_or_product(reduction.op.kind()), element_bytes);
  if (maps_input) multiply = &wrapping_kernels(ReduceOp::Kind::kProd, element_bytes);
  if (reduction.last && last_changes(reduction.op, reduction.ranks)) division = integer_division(reduction.type);
}

void ReductionPlan::choose_extreme(const Reduction& reduction) {
  const ReduceOp::Kind kind = reduction.op.kind();
  if (is_floating(reduction.type)) {
    combine = &float_extreme_kernels(kind, element_bytes);
    pass.format = float_format(reduction.type);
  } else {
    combine = &integer_extreme_kernels(kind, reduction.type);
  }
}

void ReductionPlan::choose_float(const Reduction& reduction, int source_count, bool maps_input) {
  const ReduceOp::Kind kind = sum_or_product(reduction.op.kind());
  const DataType type = reduction.type;
  if (reduction.last && last_changes(reduction.op, reduction.ranks)) divisor = reduction.ranks;
  if (type == DataType::kF32 || type == DataType::kF64) {
    combine = &float_kernels(kind, type);
    if (maps_input) multiply = &float_kernels(ReduceOp::Kind::kProd, type);
    return;
  }
  const bool is_half = type == DataType::kF16 || type == DataType::kBF16;
  if (is_half && kind == ReduceOp::Kind::kSum && source_count <= kMaxFused && !maps_input &&
      !reduction.round_every_node) {
    combine = &half_sum_kernels(type);
    return;
  }
  conversion = &tutti::conversion(type);
  lane_bytes = sizeof(float);
  pass.rounding = Rounding(float_format(type));
  combine = reduction.round_every_node ? &rounding_kernels(kind) : &float_kernels(kind, DataType::kF32);
  // Other ranks receive the product in the element's type: the rank that uses it at once must see the same value.
  if (maps_input) multiply = &rounding_kernels(ReduceOp::Kind::kProd);
}

}  // namespace tutti
