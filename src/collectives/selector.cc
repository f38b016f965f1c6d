#include "collectives/selector.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/registry.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// Predictions this close are the same: the row that comes first in the registry, the simpler one, is taken.
constexpr double kTie = 1.05;

// What the choice for all_to_all_v is made for, whatever its size: long enough to have several rounds.
constexpr double kTypicalBytesPerRank = 4 << 20;

// See the promise of Algorithm::cost.
Cost scaled(Cost cost, double bytes) {
  cost.local.bytes *= bytes;
  cost.across.bytes *= bytes;
  cost.remote.bytes *= bytes;
  cost.copied_bytes *= bytes;
  cost.reduced_bytes *= bytes;
  return cost;
}

}  // namespace

Selector::Selector(const Layout& layout, const SelectorOptions& options)
    : layout_(layout),
      options_(options),
      limits_{options.ring_bytes, options.chunk_bytes, options.channels, options.all_channels},
      override_(options.algorithm, layout, options.reproducible) {
  layout_.rank = 0;  // all ranks choose alike
  for (int collective = 0; collective < kCollectives; ++collective) {
    fill(static_cast<Collective>(collective), false);
    if (reduces(static_cast<Collective>(collective))) fill(static_cast<Collective>(collective), true);
  }
}

Selector::Row Selector::make_row(const Algorithm& algorithm) const {
  Row row;
  row.algorithm = &algorithm;
  row.index = static_cast<std::uint16_t>(&algorithm - algorithms().data());
  row.chunking = algorithm.chunking(layout_);
  row.cost = cost_of(algorithm, layout_, 1);
  row.chunk_bytes = chunk_bytes_for(row.chunking, layout_, limits_, row.cost.flows);
  return row;
}

std::vector<Selector::Row> Selector::candidates(Collective collective, bool at_once) const {
  std::vector<Row> rows;
  const Algorithm* wanted = override_.of(collective);
  if (at_once && wanted != nullptr && !wanted->at_once) wanted = nullptr;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective || (wanted != nullptr && wanted != &algorithm)) continue;
    if (at_once && !algorithm.at_once) continue;
    if (!obstacle(algorithm, layout_, options_.reproducible).empty()) continue;
    const Row row = make_row(algorithm);
    if (row.chunk_bytes > 0) rows.push_back(row);
  }
  return rows;
}

Selector::Judgement Selector::judge(const Row& row, double bytes) const {
  const Cut cut = cut_call(row.algorithm->collective, row.chunking, layout_, bytes, row.chunk_bytes, limits_);
  Judgement judgement;
  judgement.choice = {row.index, static_cast<std::uint16_t>(cut.channels), row.chunk_bytes};
  judgement.rounds = cut.rounds;
  judgement.prediction = predict(scaled(row.cost, bytes), cut, options_.parameters);
  return judgement;
}

const Tuning::Choice* Selector::measured(Collective collective, std::size_t bytes) const {
  const Tuning::Choice* found = nullptr;
  for (const Tuning::Choice& choice : options_.choices) {
    if (choice.collective != collective || choice.ranks != layout_.ranks || choice.hosts != layout_.hosts) continue;
    const bool covers = collective == Collective::kAllToAllV ? choice.from_bytes == 0 : choice.from_bytes <= bytes;
    if (covers && (found == nullptr || found->from_bytes <= choice.from_bytes)) found = &choice;
  }
  return found;
}

void Selector::fill(Collective collective, bool at_once) {
  const std::vector<Row> rows = candidates(collective, at_once);
  auto& choices = tables_[at_once ? 1 : 0][static_cast<std::size_t>(collective)];
  if (rows.empty() && at_once) return choices.fill({.algorithm = Choice::kNone});
  if (rows.empty()) {
    throw Error(ErrorCode::kInvalidSetting,
                fmt::format("a slot ring of {} bytes is too small for {} between {} ranks: raise TUTTI_RING_BYTES",
                            options_.ring_bytes, name(collective), layout_.ranks));
  }
  for (std::size_t index = 0; index < kClasses; ++index) {
    const double bytes = collective == Collective::kAllToAllV ? kTypicalBytesPerRank * layout_.ranks
                                                              : static_cast<double>(class_bytes(index));
    Choice& taken = choices[index];
    const Tuning::Choice* wanted = measured(collective, class_bytes(index));
    const auto named = std::ranges::find_if(
        rows, [wanted](const Row& row) { return wanted != nullptr && row.algorithm->name == wanted->algorithm; });
    if (named != rows.end()) {
      taken = judge(*named, bytes).choice;
      continue;
    }
    double shortest = judge(rows.front(), bytes).prediction.total();
    for (const Row& row : rows) shortest = std::min(shortest, judge(row, bytes).prediction.total());
    for (const Row& row : rows) {
      const Judgement judgement = judge(row, bytes);
      if (judgement.prediction.total() > shortest * kTie) continue;
      taken = judgement.choice;
      break;
    }
  }
}

std::uint64_t Selector::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits, over words
  for (const Table& table : tables_) {
    for (const auto& choices : table) {
      for (const Choice& choice : choices) {
        for (const std::uint64_t word :
             {std::uint64_t{choice.algorithm}, std::uint64_t{choice.channels}, std::uint64_t{choice.chunk_bytes}}) {
          hash = (hash ^ word) * 0x100000001b3;
        }
      }
    }
  }
  return hash;
}

std::vector<Selector::Candidate> Selector::explain(Collective collective, std::size_t bytes) const {
  const Choice& taken = choose(collective, bytes);
  std::vector<Candidate> result;
  double best = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective) continue;
    Candidate candidate;
    candidate.algorithm = &algorithm;
    const std::string_view needs = obstacle(algorithm, layout_, options_.reproducible);
    const Row row = needs.empty() ? make_row(algorithm) : Row{};
    if (!needs.empty()) {
      candidate.reason = fmt::format("needs {}", needs);
    } else if (row.chunk_bytes == 0) {
      candidate.reason = fmt::format("needs a slot ring of {} bytes", 128 * row.chunking.slot_chunks);
    } else {
      const Judgement judgement = judge(row, static_cast<double>(bytes));
      candidate.possible = true;
      candidate.chosen = row.index == taken.algorithm;
      candidate.choice = judgement.choice;
      candidate.rounds = judgement.rounds;
      candidate.prediction = judgement.prediction;
      if (candidate.chosen) best = judgement.prediction.total();
    }
    result.push_back(candidate);
  }
  std::stable_sort(result.begin(), result.end(), [](const Candidate& a, const Candidate& b) {
    if (a.chosen != b.chosen) return a.chosen;
    if (a.possible != b.possible) return a.possible;
    return a.possible && a.prediction.total() < b.prediction.total();
  });

  const bool overridden = override_.of(collective) != nullptr;
  const Tuning::Choice* wanted = overridden ? nullptr : measured(collective, class_bytes(size_class(bytes)));
  for (Candidate& candidate : result) {
    if (!candidate.possible) continue;
    const double ratio = candidate.prediction.total() / best;
    if (candidate.chosen) {
      const bool named = wanted != nullptr && candidate.algorithm->name == wanted->algorithm;
      candidate.reason = overridden ? "asked for by TUTTI_ALGO"
                         : named    ? "chosen by the tuning file"
                                    : "shortest predicted time, or the simplest of a tie";
    } else if (overridden) {
      candidate.reason = "not asked for by TUTTI_ALGO";
    } else if (ratio < kTie) {
      candidate.reason = "a tie, and less simple";
    } else {
      candidate.reason = fmt::format("{:.2f} times as long", ratio);
    }
  }
  return result;
}

}  // namespace tutti
