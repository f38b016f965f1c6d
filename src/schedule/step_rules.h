#pragma once

#include <string>

#include "schedule/algorithm.h"
#include "schedule/step.h"

namespace tutti {

// The sizes that a step's chunks must respect on one rank.
struct StepLimits {
  Collective collective;
  int chunks = 1;
  int input_chunks = 0;
  int output_chunks = 0;
  int scratch_chunks = 0;
  int slot_chunks = 0;
};

// What is wrong with a step by itself, whatever the other ranks do: parts that its kind does not have, chunks out of
// bounds, lengths that do not fit its shape. Empty when it is well formed. froms, tos: the sizes of its peer sets.
std::string step_fault(const Step& step, const StepLimits& limits, int froms, int tos);

}  // namespace tutti
