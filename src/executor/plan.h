#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/algorithm.h"
#include "schedule/layout.h"

namespace tutti {

// A schedule made ready for one rank: the algorithm's lists of steps, one for each root if it has roots, stored when
// all of them together are short, else generated step by step. Immutable; owned by the communicator, made at first use.
class Plan {
 public:
  static constexpr std::size_t kLargestStored = 64 * 1024;  // bytes

  Plan(const Algorithm& algorithm, const Layout& layout);

  const Algorithm& algorithm() const { return *algorithm_; }
  const Layout& layout() const { return layout_; }
  const Chunking& chunking() const { return chunking_; }

  // Some step may be written into the receivers' output: they say where it lies.
  bool writes() const { return writes_; }
  // … in answer to what they have sent, in which they say so.
  bool answers() const { return answers_; }
  // … though they send nothing before: they say so when they begin (executor/output_notice.h).
  bool writes_unasked() const { return writes_unasked_; }

  int steps(int root) const {
    return stored_.empty() ? algorithm_->steps(layout_, root) : static_cast<int>(stored(root).size());
  }
  Step step(int root, int index) const {
    return stored_.empty() ? algorithm_->step(layout_, root, index) : stored(root)[static_cast<std::size_t>(index)];
  }

  // Whether run_straight_line() knows all of its steps. They are stored then.
  bool is_straight() const { return is_straight_; }
  // The steps of one list. REQUIRES: is_straight().
  std::span<const Step> stored(int root) const {
    const std::size_t list = rooted_ ? static_cast<std::size_t>(root) : 0;
    return {stored_.data() + begins_[list], stored_.data() + begins_[list + 1]};
  }

 private:
  void store();

  const Algorithm* algorithm_;
  Layout layout_;
  Chunking chunking_;
  bool rooted_;
  bool is_straight_ = false;
  std::vector<Step> stored_;           // list after list
  std::vector<std::uint32_t> begins_;  // of each list, and the end of the last
  bool writes_ = false;
  bool answers_ = false;
  bool writes_unasked_ = false;
};

}  // namespace tutti
