#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "schedule/algorithm.h"

namespace tutti {

// What each rank contributes in tests: small whole numbers, so that float sums of any order are exact. Element i of
// rank r's input, which may be several blocks long.
float reference_input(int rank, std::size_t index);

// What follows is about blocks of one size, also for vector forms.

// Elements of a rank's input and output in a collective; 0 where the buffer does not count.
std::size_t input_elements(Collective collective, int rank, int ranks, int root, std::size_t count);
std::size_t output_elements(Collective collective, int rank, int ranks, int root, std::size_t count);

// What rank `rank` must have in its output after a sum over reference inputs.
std::vector<float> reference_output(Collective collective, int rank, int ranks, int root, std::size_t count);

}  // namespace tutti
