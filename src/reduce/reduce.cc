#include "reduce/reduce.h"

#include <cassert>
#include <optional>

#include "base/arithmetic.h"
#include "reduce/block_tree.h"
#include "reduce/copy.h"
#include "reduce/plan.h"

namespace tutti {
namespace {

void copy(const void* source, void* dst, std::size_t bytes, StoreKind stores) {
  if (dst != source) copy_bytes(dst, source, bytes, stores);
}

}  // namespace

bool first_changes(ReduceOp op) { return op.kind() == ReduceOp::Kind::kPreMulSum && op.scalar() != 1.0; }

bool last_changes(ReduceOp op, int ranks) { return op.kind() == ReduceOp::Kind::kAvg && ranks != 1; }

bool needs_all_at_once(ReduceOp op, DataType type) {
  return op.kind() == ReduceOp::Kind::kAvg &&
         (type == DataType::kF16 || type == DataType::kF8E5M2 || type == DataType::kF8E4M3);
}

bool computes_with_floats(const Reduction& reduction) {
  const ReduceOp::Kind kind = reduction.op.kind();
  if (!is_floating(reduction.type)) return reduction.last && last_changes(reduction.op, reduction.ranks);
  return kind != ReduceOp::Kind::kMin && kind != ReduceOp::Kind::kMax;
}

void reduce(const Reduction& requested, const void* const* sources, int source_count, int mapped_source, void* dst,
            void* dst2, std::size_t elements, StoreKind stores, StoreKind first_stores) {
  Reduction reduction = requested;
  assert(source_count >= 1 && source_count <= kMaxSources && mapped_source < source_count);
  assert(supports(reduction.op, reduction.type));
  if (elements == 0) return;
  if (reduction.op.kind() >= ReduceOp::Kind::kBand) {
    elements *= element_size(reduction.type);
    reduction.type = DataType::kU8;
  }
  const bool maps_input = mapped_source >= 0 && first_changes(reduction.op);
  const bool maps_output = reduction.last && last_changes(reduction.op, reduction.ranks);
  if (source_count == 1 && !maps_input && !maps_output) {
    const std::size_t bytes = elements * element_size(reduction.type);
    // dst may be where the source lies, and so may dst2.
    copy(sources[0], dst, bytes, dst2 ? first_stores : stores);
    if (dst2) copy(sources[0], dst2, bytes, stores);
    return;
  }

  std::optional<DefaultArithmetic> arithmetic;
  if (computes_with_floats(reduction)) arithmetic.emplace();
  ReductionPlan plan(reduction, source_count, mapped_source);
  if (plan.single_pass(source_count)) {
    Pass& pass = plan.pass;
    pass.sources = sources;
    pass.dst = dst;
    pass.dst2 = dst2;
    pass.elements = elements;
    pass.divisor = plan.divisor;
    pass.streams = stores == StoreKind::kStreaming;
    pass.streams_both = pass.streams && dst2 && first_stores == StoreKind::kStreaming;
    (*plan.combine)[source_count](pass);
    return;
  }
  BlockTree tree(plan, reduction.type, reduction.ranks, elements, mapped_source);
  tree.evaluate(sources, source_count, dst, dst2, elements, stores);
}

void map_elements(const Reduction& reduction, bool first, const void* source, void* dst, std::size_t elements,
                  StoreKind stores) {
  reduce(reduction, &source, 1, first ? 0 : -1, dst, nullptr, elements, stores);
}

}  // namespace tutti
