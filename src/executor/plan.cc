#include "executor/plan.h"

namespace tutti {

Plan::Plan(const Algorithm& algorithm, const Layout& layout)
    : algorithm_(&algorithm), layout_(layout), chunking_(algorithm.chunking(layout)) {
  if (is_rooted(algorithm.collective)) return;
  const int count = algorithm.steps(layout, 0);
  if (static_cast<std::size_t>(count) * sizeof(Step) > kLargestStoredList) return;
  stored_.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) stored_.push_back(algorithm.step(layout, 0, i));
}

}  // namespace tutti
