#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "schedule/algorithm.h"
#include "schedule/placement.h"
#include "schedule/symbolic_run.h"

namespace tutti {

// What the verifier found. What it proves, and what it does not, is in docs/schedule.md.
struct Verdict {
  bool right = false;
  std::string counterexample;  // in words; empty when right
  int steps = 0;               // of the rank with the longest list
  std::size_t messages = 0;    // of all ranks, per round
  // Sends of all ranks, counted once for calls in place and once for calls that are not (up to kExactRanks).
  std::size_t claimed_reads = 0;    // claimed to be readable
  std::size_t claimable_reads = 0;  // that could be claimed and are not, of single chunks in the user's memory
  std::string claimable_example;    // one of those, in words
  // The same for sends that are written where they belong, in the receivers' memory.
  std::size_t claimed_writes = 0;
  std::size_t claimable_writes = 0;
};

// Proves one algorithm for one placement and root: runs all ranks, out of place and in place, two rounds each.
// Exact up to kExactRanks ranks; with fingerprints, and without the check of readable sends, beyond.
// Any thread; memory grows with ranks² and the chunks of all ranks. REQUIRES: applies(layout), root < ranks.
Verdict verify(const Algorithm& algorithm, const Placement& placement, int root);

// Proves that calls that follow each other without a pause do not disturb each other.
Verdict verify_sequence(std::span<const SymbolicCall> calls, const Placement& placement);

// The claims that would be legal: one Readable value per step of every rank's list, kReadableNever for steps that send
// nothing or a value that lies nowhere. Empty when the algorithm is wrong by itself. REQUIRES: ranks <= kExactRanks.
std::vector<std::vector<Readable>> legal_reads(const Algorithm& algorithm, const Placement& placement, int root);

}  // namespace tutti
