#include "reduce/plan.h"

#include <cmath>
#include <cstdint>

namespace tutti {
namespace {

// A whole number modulo 2^64.
std::uint64_t wrapped(double scalar) {
  constexpr double kTwo64 = 18446744073709551616.0;
  const double magnitude = std::fmod(std::fabs(scalar), kTwo64);
  const std::uint64_t bits = magnitude < kTwo64 ? static_cast<std::uint64_t>(magnitude) : 0;
  return scalar < 0 ? 0 - bits : bits;
}

bool is_extreme(ReduceOp::Kind kind) { return kind == ReduceOp::Kind::kMin || kind == ReduceOp::Kind::kMax; }

// avg and pre_mul_sum are sums with maps.
ReduceOp::Kind sum_or_product(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kProd ? ReduceOp::Kind::kProd : ReduceOp::Kind::kSum;
}

}  // namespace

ReductionPlan::ReductionPlan(const Reduction& reduction, int source_count, int mapped_source)
    : element_bytes(element_size(reduction.type)),
      lane_bytes(element_bytes),
      maps_input_(mapped_source >= 0 && first_changes(reduction.op)) {
  if (maps_input_) choose_factor(reduction.op, mapped_source);
  const ReduceOp::Kind kind = reduction.op.kind();
  if (kind >= ReduceOp::Kind::kBand) {
    combine = &bitwise_kernels(kind);
  } else if (is_extreme(kind)) {
    choose_extreme(reduction);
  } else if (is_floating(reduction.type)) {
    choose_float(reduction, source_count);
  } else {
    choose_integer(reduction, source_count);
  }
}

void ReductionPlan::choose_factor(ReduceOp op, int mapped_source) {
  pass.multiplied_source = mapped_source;
  pass.factor = op.scalar();
  pass.whole_factor = wrapped(op.scalar());
}

void ReductionPlan::choose_integer(const Reduction& reduction, int source_count) {
  if (maps_input_ && source_count <= kMaxFused) {
    combine = &multiplied_sum_kernels(reduction.type);
    return;
  }
  combine = &wrapping_kernels(sum_or_product(reduction.op.kind()), element_bytes);
  if (maps_input_) multiply = &wrapping_kernels(ReduceOp::Kind::kProd, element_bytes);
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

void ReductionPlan::choose_float(const Reduction& reduction, int source_count) {
  const ReduceOp::Kind kind = sum_or_product(reduction.op.kind());
  const DataType type = reduction.type;
  if (reduction.last && last_changes(reduction.op, reduction.ranks)) divisor = reduction.ranks;
  if (type == DataType::kF32 || type == DataType::kF64) {
    if (maps_input_ && source_count <= kMaxFused) {
      combine = &multiplied_sum_kernels(type);
      return;
    }
    combine = &float_kernels(kind, type);
    if (maps_input_) multiply = &float_kernels(ReduceOp::Kind::kProd, type);
    return;
  }
  const bool rounds_nodes = reduction.round_every_node && !needs_all_at_once(reduction.op, type);
  // Other ranks receive the input map's product in the element's type: the rank that uses it at once must see the same.
  pass.rounding = Rounding(float_format(type));
  if (source_count <= kMaxFusedSmall) {
    const ReduceOp::Kind fused = maps_input_ ? ReduceOp::Kind::kPreMulSum : kind;
    // A tree of one node is rounded when it is stored.
    const bool has_nodes = source_count > 2 || divisor != 0;
    combine = rounds_nodes && has_nodes ? &rounded_small_float_kernels(fused, type) : &small_float_kernels(fused, type);
    return;
  }
  conversion = &tutti::conversion(type);
  lane_bytes = sizeof(float);
  combine = rounds_nodes ? &rounding_kernels(kind) : &float_kernels(kind, DataType::kF32);
  if (maps_input_) multiply = &rounding_kernels(ReduceOp::Kind::kProd);
}

}  // namespace tutti
