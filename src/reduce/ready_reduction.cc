#include "reduce/ready_reduction.h"

#include "reduce/plan.h"

namespace tutti {

ReadyReduction::ReadyReduction(const Reduction& reduction, int sources)
    : sources_(sources), last_(reduction.last), reduction_(reduction) {
  if (sources < 2) return;
  Reduction pass = reduction;
  if (reduction.op.kind() >= ReduceOp::Kind::kBand) {
    lanes_ = element_size(reduction.type);
    pass.type = DataType::kU8;
  }
  const ReductionPlan plan(pass, sources, -1);
  if (!plan.single_pass(sources)) return;
  pass_ = plan.pass;
  pass_.divisor = plan.divisor;
  kernel_ = (*plan.combine)[sources];
  with_floats_ = computes_with_floats(reduction);
}

}  // namespace tutti
