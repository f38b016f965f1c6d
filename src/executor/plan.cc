#include "executor/plan.h"

#include <algorithm>

namespace tutti {
namespace {

// One chunk, or none, of the caller's buffers, taken out of the whole of a message; no
// map but where a sum is finished.
bool goes_straight(const Step& step) {
  const bool known = step.kind == StepKind::kCopy || step.kind == StepKind::kSend || step.kind == StepKind::kRecv ||
                     step.kind == StepKind::kReduce;
  const bool mapped = step.last != 0 && step.kind != StepKind::kReduce;
  return known && !mapped && step.count <= 1 && step.part == 0 && step.source_space != Space::kScratch &&
         step.destination_space != Space::kScratch;
}

}  // namespace

Plan::Plan(const Algorithm& algorithm, const Layout& layout)
    : algorithm_(&algorithm),
      layout_(layout),
      chunking_(algorithm.chunking(layout)),
      rooted_(is_rooted(algorithm.collective)) {
  store();
  is_straight_ =
      chunking_.chunks == 1 && !stored_.empty() && std::all_of(stored_.begin(), stored_.end(), goes_straight);
}

void Plan::store() {
  const int lists = rooted_ ? layout_.ranks : 1;
  std::size_t count = 0;
  for (int root = 0; root < lists; ++root) count += static_cast<std::size_t>(algorithm_->steps(layout_, root));
  if (count * sizeof(Step) > kLargestStored) return;
  stored_.reserve(count);
  begins_.push_back(0);
  for (int root = 0; root < lists; ++root) {
    const int steps = algorithm_->steps(layout_, root);
    for (int i = 0; i < steps; ++i) stored_.push_back(algorithm_->step(layout_, root, i));
    begins_.push_back(static_cast<std::uint32_t>(stored_.size()));
  }
  for (const Step& step : stored_) {
    if (step.writable == kWritableNever) continue;
    writes_ = true;
    (step.kind == StepKind::kSend ? writes_unasked_ : answers_) = true;
  }
}

}  // namespace tutti
