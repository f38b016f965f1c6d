#pragma once

#include <cstddef>

#include "base/arithmetic.h"
#include "reduce/kernels.h"
#include "reduce/reduce.h"

namespace tutti {

// A reduction of so many sources into one place, without an input map, looked up beforehand: for short calls, in which
// looking up takes longer than reducing. Gives the bits that reduce() gives. One thread at a time; never blocks, never
// allocates.
class ReadyReduction {
 public:
  ReadyReduction() = default;
  ReadyReduction(const Reduction& reduction, int sources);

  // What it was looked up for.
  bool is_for(int sources, bool last) const { return sources_ == sources && last_ == last; }

  // elements > 0. sources, dst: as for reduce().
  void run(const void* const* sources, void* dst, std::size_t elements) {
    if (kernel_ == nullptr) return reduce(reduction_, sources, sources_, -1, dst, nullptr, elements);
    pass_.sources = sources;
    pass_.dst = dst;
    pass_.elements = elements * lanes_;
    if (!with_floats_) return kernel_(pass_);
    const DefaultArithmetic arithmetic;
    kernel_(pass_);
  }

 private:
  int sources_ = 0;
  bool last_ = false;
  bool with_floats_ = false;
  std::size_t lanes_ = 1;  // of the kernel, for an element
  Kernel kernel_ = nullptr;
  Pass pass_;
  Reduction reduction_;  // for those that take more than one kernel call
};

}  // namespace tutti
