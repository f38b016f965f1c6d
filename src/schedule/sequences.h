#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "schedule/algorithm.h"
#include "schedule/placement.h"

namespace tutti {

// Verifies `count` sequences of three calls, drawn at random from the algorithms that apply to the placement, with
// random roots, in place and not. Returns the first counterexample, with the calls it belongs to; empty when there is
// none. The same seed draws the same sequences.
std::string verify_random_sequences(std::span<const Algorithm> algorithms, const Placement& placement, int count,
                                    std::uint64_t seed);

}  // namespace tutti
