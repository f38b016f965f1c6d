#include "schedule/verifier.h"

#include "schedule/peer_sets.h"
#include "schedule/text.h"

namespace tutti {
namespace {

constexpr int kRounds = 2;
constexpr std::uint64_t kSilences = 4;  // runs with blocks that end early, for vector forms

std::string variant_name(bool in_place) { return in_place ? "in place: " : ""; }

// Runs again with everything written down, to explain a mistake that is known to be there.
std::string explain(std::span<const SymbolicCall> calls, const Placement& placement, SymbolicRun::Options options) {
  options.keep_text = true;
  return SymbolicRun(placement, calls, options).run();
}

// A step that sends a value which lies in its rank's memory.
bool sends_from_memory(const Layout& layout, const Step& step) {
  return set_size(layout, step.to) > 0 && step.count > 0 && (step.kind == StepKind::kSend || stores(step));
}

// Executors read in place what is one piece of a buffer that peers may know.
bool is_worth_reading(const Step& step) {
  return step.count == 1 && (stores(step) ? step.destination_space : step.source_space) != Space::kScratch;
}

// With rank r contributing 10^r: what a sum of these ranks is.
std::uint64_t decimal_sum(const Value& value) {
  std::uint64_t sum = 0;
  std::uint64_t power = 1;
  for (std::uint64_t ranks = value.ranks; ranks != 0; ranks >>= 1, power *= 10) sum += (ranks & 1) * power;
  return sum;
}

std::string describe_race(const Algorithm& algorithm, const Placement& placement, const ReadTracker& reads,
                          const ReadTracker::Race& race, const Step& step, bool in_place) {
  const ReadTracker::Reader& reader = reads.reader(race.reader);
  const std::string peer = "rank " + std::to_string(reader.rank);
  const std::string self = "rank " + std::to_string(race.rank);
  const int chunks = algorithm.chunking(placement.layout(0)).chunks;
  const Contributors contributors(placement.ranks());
  const auto words = [&](const Value& value) {
    return describe(value, contributors, algorithm.collective, placement.ranks(), chunks);
  };
  std::string line = self + ", step " + std::to_string(race.step) + " (" + text(step) + "): it claims to be readable " +
                     (in_place ? "in place" : "out of place") + ", but " + self + " overwrites the value at step " +
                     std::to_string(race.overwriting_step) + ", and nothing orders this after " + peer +
                     "'s reading at step " + std::to_string(reader.step) + ": " + peer + " may find " +
                     words(race.overwritten) + " instead of " + words(race.sent);
  constexpr int kMostDigits = 9;
  const bool combined = reader.result.ranks != race.sent.ranks;
  if (reduces(algorithm.collective) && combined && placement.ranks() <= kMostDigits) {
    const std::uint64_t right = decimal_sum(reader.result);
    const std::uint64_t wrong = right - decimal_sum(race.sent) + decimal_sum(race.overwritten);
    line += "; when rank r contributes 10^r, " + peer + " gets " + std::to_string(wrong) + " instead of " +
            std::to_string(right);
  }
  return line;
}

std::string describe_race(const Algorithm& algorithm, const Placement& placement, int root,
                          const WriteTracker::Race& race) {
  const Step step = algorithm.step(placement.layout(race.rank), root, race.step);
  const std::string receiver = "rank " + std::to_string(race.receiver);
  std::string line = "rank " + std::to_string(race.rank) + ", step " + std::to_string(race.step) + " (" + text(step) +
                     "): it claims to be writable " + (race.in_place ? "in place" : "out of place") + ", but ";
  if (race.user < 0) {
    return line + receiver + " does not store the message at that chunk of its output, at step " +
           std::to_string(race.receiving_step);
  }
  line += "rank " + std::to_string(race.user) + " uses that chunk of " + receiver + "'s memory at step " +
          std::to_string(race.using_step) + ", and nothing orders the writing after that";
  return line;
}

std::string judge_writes(const Algorithm& algorithm, const Placement& placement, int root, bool in_place,
                         const WriteTracker& writes, Verdict& verdict) {
  const int mode = in_place ? kWritableInPlace : kWritableOutOfPlace;
  for (const WriteTracker::Race& race : writes.races()) {
    const Step step = algorithm.step(placement.layout(race.rank), root, race.step);
    if ((step.writable & mode) != 0) return describe_race(algorithm, placement, root, race);
  }
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    const Layout layout = placement.layout(rank);
    const int steps = algorithm.steps(layout, root);
    for (int index = 0; index < steps; ++index) {
      if ((algorithm.step(layout, root, index).writable & mode) != 0) {
        ++verdict.claimed_writes;
      } else if (writes.seen(rank, index) && !writes.lost(rank, index)) {
        ++verdict.claimable_writes;
      }
    }
  }
  return {};
}

// Counts what is claimed and what could be; returns the first claim that is not legal, in words.
std::string judge_claims(const Algorithm& algorithm, const Placement& placement, int root, bool in_place,
                         const ReadTracker& reads, Verdict& verdict) {
  const int mode = in_place ? kReadableInPlace : kReadableOutOfPlace;
  for (const ReadTracker::Race& race : reads.races()) {
    const Step step = algorithm.step(placement.layout(race.rank), root, race.step);
    if ((step.readable & mode) != 0) return describe_race(algorithm, placement, reads, race, step, in_place);
  }
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    const Layout layout = placement.layout(rank);
    const int steps = algorithm.steps(layout, root);
    for (int index = 0; index < steps; ++index) {
      const Step step = algorithm.step(layout, root, index);
      if (!sends_from_memory(layout, step)) continue;
      if ((step.readable & mode) != 0) {
        ++verdict.claimed_reads;
      } else if (is_worth_reading(step) && !reads.lost(rank, index)) {
        ++verdict.claimable_reads;
        if (verdict.claimable_example.empty()) {
          verdict.claimable_example = "rank " + std::to_string(rank) + ", step " + std::to_string(index) + " (" +
                                      text(step) + ") " + (in_place ? "in place" : "out of place");
        }
      }
    }
  }
  return {};
}

// The vector forms leave out messages of blocks that have ended: everything must still be right, nobody wait, and no
// claim of `readable` rest on a message that is not sent. Returns what is wrong.
std::string judge_silence(const Algorithm& algorithm, const Placement& placement, int root) {
  for (std::uint64_t silence = 1; silence <= kSilences; ++silence) {
    const bool in_place = silence % 2 == 0;
    const SymbolicCall calls[] = {{&algorithm, root, in_place}};
    const SymbolicRun::Options options{kRounds, placement.ranks() <= kExactRanks, false, silence};
    SymbolicRun run(placement, calls, options);
    std::string fault = run.run();
    if (!fault.empty()) fault = explain(calls, placement, options);
    Verdict ignored;
    if (fault.empty() && options.track_reads) {
      fault = judge_claims(algorithm, placement, root, in_place, run.reads(), ignored);
      if (fault.empty()) fault = judge_writes(algorithm, placement, root, in_place, run.writes(), ignored);
    }
    if (!fault.empty()) return "some blocks end early: " + variant_name(in_place) + fault;
  }
  return {};
}

}  // namespace

Verdict verify(const Algorithm& algorithm, const Placement& placement, int root) {
  Verdict verdict;
  std::vector<std::uint64_t> sent;
  for (const bool in_place : {false, true}) {
    const SymbolicCall calls[] = {{&algorithm, root, in_place}};
    const SymbolicRun::Options options{kRounds, placement.ranks() <= kExactRanks, false};
    SymbolicRun run(placement, calls, options);
    if (!run.run().empty()) {
      verdict.counterexample = variant_name(in_place) + explain(calls, placement, options);
      return verdict;
    }
    verdict.steps = run.most_steps();
    verdict.messages = run.messages() / kRounds;
    if (options.track_reads) {
      verdict.counterexample = judge_claims(algorithm, placement, root, in_place, run.reads(), verdict);
      if (verdict.counterexample.empty()) {
        verdict.counterexample = judge_writes(algorithm, placement, root, in_place, run.writes(), verdict);
      }
      if (!verdict.counterexample.empty()) return verdict;
    }
    // Ranks that call in place may meet ranks that do not: then what a rank sends must not depend on it.
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      if (!in_place) {
        sent.push_back(run.sent_hash(rank));
      } else if (sent[rank] != run.sent_hash(rank)) {
        verdict.counterexample = "rank " + std::to_string(rank) + " sends other values when it is called in place";
        return verdict;
      }
    }
  }
  if (is_vector(algorithm.collective)) verdict.counterexample = judge_silence(algorithm, placement, root);
  verdict.right = verdict.counterexample.empty();
  return verdict;
}

Verdict verify_sequence(std::span<const SymbolicCall> calls, const Placement& placement) {
  const SymbolicRun::Options options{1, false, false};
  SymbolicRun run(placement, calls, options);
  Verdict verdict;
  verdict.right = run.run().empty();
  verdict.steps = run.most_steps();
  verdict.messages = run.messages();
  if (!verdict.right) verdict.counterexample = explain(calls, placement, options);
  return verdict;
}

std::vector<std::vector<Readable>> legal_reads(const Algorithm& algorithm, const Placement& placement, int root) {
  std::vector<std::vector<Readable>> legal(static_cast<std::size_t>(placement.ranks()));
  for (const bool in_place : {false, true}) {
    const SymbolicCall calls[] = {{&algorithm, root, in_place}};
    SymbolicRun run(placement, calls, {kRounds, true, false});
    if (!run.run().empty()) return {};
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      const Layout layout = placement.layout(rank);
      const int steps = algorithm.steps(layout, root);
      legal[rank].resize(static_cast<std::size_t>(steps), kReadableNever);
      for (int index = 0; index < steps; ++index) {
        if (!sends_from_memory(layout, algorithm.step(layout, root, index)) || run.reads().lost(rank, index)) continue;
        Readable& claim = legal[rank][index];
        claim = static_cast<Readable>(claim | (in_place ? kReadableInPlace : kReadableOutOfPlace));
      }
    }
  }
  return legal;
}

}  // namespace tutti
