#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithm_override.h"
#include "collectives/cost_model.h"
#include "collectives/cutting.h"
#include "collectives/tuning.h"
#include "schedule/algorithm.h"
#include "schedule/layout.h"

namespace tutti {

// How calls of one collective and size are performed.
struct Choice {
  static constexpr std::uint16_t kNone = 0xFFFF;

  std::uint16_t algorithm = 0;   // index in algorithms()
  std::uint16_t channels = 1;    // rounds go to them in turn
  std::size_t chunk_bytes = 64;  // at most, a multiple of 64
};

// Everything that the choice depends on besides the layout. Must be equal on all ranks.
struct SelectorOptions {
  std::string algorithm;             // TUTTI_ALGO
  std::size_t ring_bytes = 1 << 20;  // slot ring of one rank and channel
  std::size_t chunk_bytes = 0;       // TUTTI_CHUNK_BYTES: largest chunk; 0: chosen
  int channels = 1;                  // channels that there are
  bool all_channels = false;         // TUTTI_CHANNELS was given: use them all
  bool reproducible = false;
  CostParameters parameters;
  std::vector<Tuning::Choice> choices;  // that were measured, ascending by size; only those of this layout count
};

// Picks algorithm, channels and chunk length for every collective and size, from agreed values only, so that all ranks
// pick the same. Immutable after construction; any thread. Lookup neither allocates nor computes costs.
class Selector {
 public:
  // Throws Error(kInvalidSetting) when TUTTI_ALGO asks for something impossible.
  // REQUIRES: the layout's arrays outlive the selector.
  Selector(const Layout& layout, const SelectorOptions& options);

  // bytes: of a block times the blocks of the larger side, as for Algorithm::cost; of all blocks in a vector form. No
  // rank knows them in all_to_all_v: there the choice does not depend on them.
  // at_once: only algorithms that combine all operands in one step will do (needs_all_at_once()), whatever TUTTI_ALGO
  // and a tuning file say; Choice::kNone where the slot ring is too small for them.
  const Choice& choose(Collective collective, std::size_t bytes, bool at_once = false) const {
    return tables_[at_once && reduces(collective) ? 1 : 0][static_cast<std::size_t>(collective)][size_class(bytes)];
  }

  // Over all choices: ranks that choose alike have the same.
  std::uint64_t hash() const;

  // One algorithm of a collective, with what the model says about it at one size.
  struct Candidate {
    const Algorithm* algorithm = nullptr;
    std::string reason;  // why it is taken, or why not
    bool possible = false;
    bool chosen = false;
    // Only where possible:
    Choice choice;
    double rounds = 0;
    Prediction prediction;
  };
  // All algorithms of a collective: the chosen one first, then by predicted time, then those that are impossible.
  // Times are those of this size, while the choice is made for the smallest size of its class. Allocates.
  std::vector<Candidate> explain(Collective collective, std::size_t bytes) const;

  // Two classes an octave: [2^k, 1.5·2^k) and [1.5·2^k, 2^(k+1)); 0 and 1 have classes of their own.
  static constexpr std::size_t kClasses = 82;  // the last one has no end
  static constexpr std::size_t size_class(std::size_t bytes) {
    if (bytes < 2) return bytes;
    const std::size_t octave = static_cast<std::size_t>(std::bit_width(bytes)) - 1;
    const std::size_t index = 2 * octave + (bytes >> (octave - 1) & 1);
    return index < kClasses ? index : kClasses - 1;
  }
  // The smallest size of a class: the one that stands for all of them.
  static constexpr std::size_t class_bytes(std::size_t index) {
    return index < 2 ? index : (2 | (index & 1)) << (index / 2 - 1);
  }

 private:
  // What a row needs to be judged at any size.
  struct Row {
    const Algorithm* algorithm = nullptr;
    std::uint16_t index = 0;
    Chunking chunking;
    std::size_t chunk_bytes = 0;
    Cost cost;  // of one byte
  };
  struct Judgement {
    Choice choice;
    double rounds = 0;
    Prediction prediction;
  };
  Row make_row(const Algorithm& algorithm) const;
  std::vector<Row> candidates(Collective collective, bool at_once) const;
  // What a tuning file says for this size; null: nothing.
  const Tuning::Choice* measured(Collective collective, std::size_t bytes) const;
  Judgement judge(const Row& row, double bytes) const;
  void fill(Collective collective, bool at_once);

  Layout layout_;
  SelectorOptions options_;
  CuttingLimits limits_;
  AlgorithmOverride override_;
  using Table = std::array<std::array<Choice, kClasses>, kCollectives>;
  std::array<Table, 2> tables_;  // for all calls but those that need all at once, and for these
};

}  // namespace tutti
