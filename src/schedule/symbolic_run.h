#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/algorithm.h"
#include "schedule/data_map.h"
#include "schedule/expression.h"
#include "schedule/network.h"
#include "schedule/placement.h"
#include "schedule/read_tracker.h"
#include "schedule/value.h"
#include "schedule/write_tracker.h"

namespace tutti {

// One call of a sequence that all ranks make.
struct SymbolicCall {
  const Algorithm* algorithm = nullptr;
  int root = 0;
  bool in_place = false;
};

// Runs the lists of all ranks on symbolic values, once, greedily: every wait is for one named message, line or slot,
// so the outcome does not depend on who runs first, and a run that gets stuck is a deadlock in every timing.
//
// Calls follow each other, and rounds within them, without emptying the network in between. Each round begins with
// fresh inputs; scratch keeps what it holds. Every round of every rank must end with the outputs that the collective
// promises. Used by one thread.
class SymbolicRun {
 public:
  struct Options {
    int rounds = 2;            // of each call
    bool track_reads = false;  // decide which sends may be read or written in place
    bool keep_text = false;    // remember expressions, to print them
    // Not 0, for vector forms: blocks drawn by this number are empty from the second round on, and their messages are
    // left out.
    std::uint64_t silence = 0;
  };

  // REQUIRES: placement, calls and what they point to outlive the run; applies() of every algorithm.
  SymbolicRun(const Placement& placement, std::span<const SymbolicCall> calls, const Options& options);

  // Runs to the end. Empty when everything is right, else what is wrong, in words.
  std::string run();

  // After a run without mistakes.
  std::uint64_t sent_hash(int rank) const { return ranks_[rank].sent_hash; }  // of all values that the rank sent
  std::size_t messages() const { return messages_; }
  int most_steps() const { return most_steps_; }  // of one rank in one round
  const ReadTracker& reads() const { return reads_; }
  const WriteTracker& writes() const { return writes_; }

 private:
  struct Rank {
    Layout layout;
    int call = -1;
    int round = 0;
    int index = 0;  // of the step that comes next
    int steps = 0;
    bool finished = false;
    bool queued = false;
    Step step;
    std::vector<int> from;
    std::vector<int> to;
    std::size_t messages_there = 0;  // of `from`, looked up so far
    std::size_t lines_free = 0;      // of `to`
    std::vector<Value> memory;       // scratch, then the user's
    std::uint32_t scratch_chunks = 0;
    std::uint32_t input_base = 0;
    std::uint32_t output_base = 0;
    std::uint64_t sent_hash = 0;
  };
  struct Fault {
    std::string text;
  };

  const SymbolicCall& call_of(const Rank& rank) const { return calls_[rank.call]; }
  Collective collective_of(const Rank& rank) const { return call_of(rank).algorithm->collective; }
  int epoch_of(const Rank& rank) const { return rank.call * options_.rounds + rank.round; }
  std::span<std::uint32_t> clock(int rank) { return {clocks_.data() + static_cast<std::size_t>(rank) * n_, n_}; }

  // Moving along a rank's lists.
  void begin_call(Rank& rank);
  void begin_round(Rank& rank);
  void end_round(Rank& rank);
  void fetch(Rank& rank);  // and checks the step that comes next
  bool is_silent(const Rank& rank, std::uint32_t data) const;
  // The data that a step's source or destination names in the caller's buffers.
  std::optional<std::uint32_t> named_data(const Rank& rank, const Step& step, bool source) const;
  bool skips(const Rank& rank) const;
  void next(Rank& rank);
  bool ready(Rank& rank);
  void wake(int rank);

  // Executing one step.
  void execute(Rank& rank);
  void take_message(Rank& rank, int peer);
  Value load(const Rank& rank, int chunk) const;
  Value combine(const Rank& rank, int chunk);
  void check_block(const Rank& rank) const;
  void store(Rank& rank);
  void deliver(const Rank& rank);
  void note_uses(const Rank& rank);
  void publish(Rank& rank);
  std::uint32_t cell(const Rank& rank, Space space, int chunk) const;

  // Judging the results.
  void check_output(const Rank& rank, int chunk);
  void check_barrier(const Rank& rank);
  void check_left_over();
  [[noreturn]] void report_deadlock();
  std::string waits_for(const Rank& rank, int* peer) const;

  // Words.
  std::string where(const Rank& rank) const;
  std::string words(const Rank& rank, const Value& value) const;
  [[noreturn]] void fail(const Rank& rank, const std::string& what) const;

  std::span<const SymbolicCall> calls_;
  Options options_;
  std::size_t n_;
  Contributors contributors_;
  std::vector<Chunking> chunkings_;   // [call]
  std::vector<DataMap> maps_;         // [call]
  std::vector<std::uint64_t> costs_;  // [call] slot ring units of one chunk
  std::uint64_t reproducible_;
  Network network_;
  ReadTracker reads_;
  WriteTracker writes_;
  ExpressionText texts_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> clocks_;        // [rank][n]; empty when clocks are off
  std::vector<std::uint32_t> epoch_clocks_;  // [epoch][rank]: own clock when the rank entered; ~0: it has not
  // [epoch][data]: the expression that the first rank ended with, and that rank.
  struct Result {
    std::uint64_t passes = 0;
    int rank = 0;
  };
  std::vector<std::vector<Result>> results_;
  std::deque<int> runnable_;
  std::size_t messages_ = 0;
  int most_steps_ = 0;

  // Of the step that executes: chunks of the value, operands of one chunk, their expressions.
  std::vector<Value> value_;
  std::vector<std::pair<int, const Message*>> inbox_;
  std::vector<Value> operands_;
  std::vector<std::uint64_t> passes_;
  std::vector<std::uint64_t> trees_;
};

}  // namespace tutti
