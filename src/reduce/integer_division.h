#pragma once

#include <cstddef>

#include "tutti/types.h"

namespace tutti {

// Divides integers in place by a number of at least 2, truncating toward zero: what avg does last. The divisor need not
// fit into the type. Any thread; neither blocks nor allocates.
using IntegerDivision = void (*)(void* data, std::size_t elements, int divisor);

// REQUIRES: !is_floating(type).
IntegerDivision integer_division(DataType type);

}  // namespace tutti
