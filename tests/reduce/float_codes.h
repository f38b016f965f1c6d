#pragma once

// The floating types as the standards define them, one code at a time, independent of the library's conversions:
// decoded by formula, encoded by searching the nearest of all values.

#include <cstdint>

#include "tutti/types.h"

namespace tutti {

// REQUIRES: is_floating(type), for all functions.
double decode(DataType type, std::uint64_t code);
// To nearest, ties to even; NaN and overflow as the type has them. f64 is taken as it is.
std::uint64_t encode(DataType type, double value);
bool is_nan(DataType type, std::uint64_t code);
std::uint64_t canonical_nan(DataType type);
std::uint64_t infinity(DataType type);  // of kF8E4M3: its largest value

}  // namespace tutti
