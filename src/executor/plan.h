#pragma once

#include <cstddef>
#include <vector>

#include "schedule/algorithm.h"
#include "schedule/layout.h"

namespace tutti {

// A schedule made ready for one rank: the algorithm's list of steps, stored when it is short and the same for every
// call, else generated step by step. Immutable; owned by the communicator, made at first use.
class Plan {
 public:
  static constexpr std::size_t kLargestStoredList = 64 * 1024;  // bytes

  Plan(const Algorithm& algorithm, const Layout& layout);

  const Algorithm& algorithm() const { return *algorithm_; }
  const Layout& layout() const { return layout_; }
  const Chunking& chunking() const { return chunking_; }

  // Send the input to everyone, then reduce everything into the output: run_straight_line() performs the same.
  bool is_one_shot_reduction() const { return is_one_shot_reduction_; }

  int steps(int root) const {
    return stored_.empty() ? algorithm_->steps(layout_, root) : static_cast<int>(stored_.size());
  }
  Step step(int root, int index) const {
    return stored_.empty() ? algorithm_->step(layout_, root, index) : stored_[static_cast<std::size_t>(index)];
  }

 private:
  const Algorithm* algorithm_;
  Layout layout_;
  Chunking chunking_;
  std::vector<Step> stored_;
  bool is_one_shot_reduction_ = false;
};

}  // namespace tutti
