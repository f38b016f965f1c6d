#pragma once

// What a reduction is made of: which kernels, and what happens to elements before and after them.

#include <cstddef>

#include "reduce/integer_division.h"
#include "reduce/kernels.h"
#include "reduce/reduce.h"

namespace tutti {

struct ReductionPlan {
  // mapped_source: the one that is multiplied by the op's scalar, or -1.
  ReductionPlan(const Reduction& reduction, int source_count, int mapped_source);

  // Whether one kernel call does it all, from sources to destinations.
  bool single_pass(int source_count) const {
    return source_count <= kMaxFused && !multiply && !conversion && !division;
  }

  std::size_t element_bytes;  // in sources and destinations
  std::size_t lane_bytes;     // in what kernels read and write
  const KernelRow* combine;
  const KernelRow* multiply = nullptr;     // the input map by a block of factors, where `combine` does not do it
  const Conversion* conversion = nullptr;  // of elements to lanes, where they differ
  IntegerDivision division = nullptr;      // the output map of integers
  double divisor = 0;                      // the output map of floats
  Pass pass;                               // what every kernel call has in common

 private:
  void choose_integer(const Reduction& reduction, int source_count);
  void choose_extreme(const Reduction& reduction);
  void choose_float(const Reduction& reduction, int source_count);
  void choose_factor(ReduceOp op, int mapped_source);

  bool maps_input_;
};

}  // namespace tutti
