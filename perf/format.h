#pragma once

#include <string>

#include "perf/results.h"

namespace tutti::perf {

// The longest of two, one or no decimals, or an exponent, that fits in `width`; right-aligned. nccl-tests' columns.
std::string fit(double value, int width);

// "9.05 MB", in powers of two, as nccl-tests reports memory.
std::string memory_text(double bytes);

std::string now_text();

// "iteration 3, rank 1, element 17: got 3 (0x40400000), want 4 (0x40800000): the previous call's value"
std::string describe(const Mismatch& mismatch, DataType type);

}  // namespace tutti::perf
