#pragma once

#include <cstdint>
#include <string>

#include "tutti/types.h"

namespace tutti::perf {

// Elements of any type as their bits in the low end of 64 bits, and what they mean. Independent of the library's own
// conversions, since these check them. Any thread, no allocation except by text().

// Bits that stand for the mantissa, the hidden one included: integers up to 2^precision are exact.
int precision(DataType type);

// Rounds to nearest even; integers truncate and wrap.
std::uint64_t encode(double value, DataType type);
double decode(std::uint64_t bits, DataType type);

std::uint64_t load(const void* element, DataType type);
void store(std::uint64_t bits, void* element, DataType type);

// How many representable values apart two finite numbers are, at most 2^32; 0 only when the bits are the same.
std::uint64_t distance(std::uint64_t a, std::uint64_t b, DataType type);

// "3.5 (0x40600000)"
std::string text(std::uint64_t bits, DataType type);

}  // namespace tutti::perf
