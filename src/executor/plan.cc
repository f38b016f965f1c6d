#include "executor/plan.h"

namespace tutti {
namespace {

bool sends_input_to_everyone(const Step& step) {
  return step.kind == StepKind::kSend && step.source_space == Space::kInput && step.source == 0 && step.count == 1 &&
         step.to == kEveryone && step.last == 0;
}

bool reduces_everything(const Step& step) {
  return step.kind == StepKind::kReduce && step.source_space == Space::kInput && step.source == 0 && step.part == 0 &&
         step.destination_space == Space::kOutput && step.destination == 0 && step.count == 1 &&
         step.from == kEveryone && step.last == 1;
}

}  // namespace

Plan::Plan(const Algorithm& algorithm, const Layout& layout)
    : algorithm_(&algorithm), layout_(layout), chunking_(algorithm.chunking(layout)) {
  if (is_rooted(algorithm.collective)) return;
  const int count = algorithm.steps(layout, 0);
  if (static_cast<std::size_t>(count) * sizeof(Step) > kLargestStoredList) return;
  stored_.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) stored_.push_back(algorithm.step(layout, 0, i));
  is_one_shot_reduction_ =
      chunking_.chunks == 1 && count == 2 && sends_input_to_everyone(stored_[0]) && reduces_everything(stored_[1]);
}

}  // namespace tutti
