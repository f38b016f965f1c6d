#pragma once

// The contract of reduce() for one element, written for reading: the definition of the tree, plain arithmetic.

#include <cstdint>
#include <vector>

#include "reduce/reduce.h"

namespace tutti {

// Elements are their codes, zero-extended. mapped: as in reduce(), or -1.
std::uint64_t reference(const Reduction& reduction, const std::vector<std::uint64_t>& sources, int mapped);

}  // namespace tutti
