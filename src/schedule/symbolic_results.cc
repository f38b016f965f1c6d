// The part of SymbolicRun that judges results and explains what is wrong with them.
#include <algorithm>

#include "schedule/symbolic_run.h"
#include "schedule/text.h"

namespace tutti {

void SymbolicRun::check_output(const Rank& rank, int chunk) {
  const int self = rank.layout.rank;
  const DataMap& map = maps_[rank.call];
  const Collective collective = collective_of(rank);
  const Value& value = rank.memory[cell(rank, Space::kOutput, chunk)];

  Value expected;
  const int source = map.output_source(chunk);
  expected.valid = true;
  expected.data = map.output_data(self, chunk);
  expected.epoch = static_cast<std::uint8_t>(epoch_of(rank));
  expected.contributions = static_cast<std::uint16_t>(source == DataMap::kAllRanks ? n_ : 1);
  expected.ranks = source == DataMap::kAllRanks ? contributors_.all() : contributors_.of(source);
  expected.first = expected.last = reduces(collective);

  if (is_silent(rank, expected.data)) return;

  if (!value.valid || value.data != expected.data || value.epoch != expected.epoch || value.ranks != expected.ranks ||
      value.contributions != expected.contributions || value.first != expected.first || value.last != expected.last) {
    std::string found = words(rank, value);
    if (value.valid && value.epoch != expected.epoch) found += ", of an earlier round or call";
    fail(rank, "it ends with output[" + std::to_string(chunk) + "] = " + found + "; expected " + words(rank, expected));
  }
  if (!reduces(collective)) return;

  if (call_of(rank).algorithm->reproducible && value.tree != reproducible_) {
    std::string sum = texts_.text(value.tree);
    fail(rank, "it claims to be reproducible, but combines " +
                   describe_data(collective, static_cast<int>(n_), map.chunks(), value.data) + " as " + sum);
  }
  Result& first = results_[static_cast<std::size_t>(epoch_of(rank))][value.data];
  if (first.passes == 0) first = {value.passes, self};
  if (first.passes != value.passes) {
    fail(rank,
         "ranks end with different bits: " + describe_data(collective, static_cast<int>(n_), map.chunks(), value.data) +
             " is " + texts_.text(value.passes) + " here, " + texts_.text(first.passes) + " on rank " +
             std::to_string(first.rank));
  }
}

void SymbolicRun::check_barrier(const Rank& rank) {
  const int self = rank.layout.rank;
  const std::uint32_t* entered = epoch_clocks_.data() + static_cast<std::size_t>(epoch_of(rank)) * n_;
  for (int peer = 0; peer < rank.layout.ranks; ++peer) {
    // Only steps of this round count beyond the clock with which the peer entered; ~0 is beyond all of them.
    if (peer == self || clock(self)[peer] > entered[peer]) continue;
    fail(rank, "it leaves the barrier, and nothing tells it that rank " + std::to_string(peer) + " has entered");
  }
}

void SymbolicRun::check_left_over() {
  for (const Rank& rank : ranks_) {
    for (int peer = 0; peer < rank.layout.ranks; ++peer) {
      if (network_.waiting(peer, rank.layout.rank) == 0) continue;
      const Message& message = network_.message(network_.front(peer, rank.layout.rank).message);
      throw Fault{"rank " + std::to_string(rank.layout.rank) + " never takes the message that rank " +
                  std::to_string(peer) + " sent at step " + std::to_string(message.step)};
    }
  }
}

std::string SymbolicRun::waits_for(const Rank& rank, int* peer) const {
  const int self = rank.layout.rank;
  if (rank.messages_there < rank.from.size()) {
    *peer = rank.from[rank.messages_there];
    return "a message from rank " + std::to_string(*peer);
  }
  if (rank.lines_free < rank.to.size()) {
    *peer = rank.to[rank.lines_free];
    return "rank " + std::to_string(*peer) + " to take an earlier message (step " +
           std::to_string(network_.message(network_.front(self, *peer).message).step) + ")";
  }
  const Message& oldest = network_.message(network_.oldest_in_ring(self));
  for (*peer = 0; *peer < rank.layout.ranks; ++*peer) {
    if (network_.waiting(self, *peer) == 0) continue;
    if (&network_.message(network_.front(self, *peer).message) == &oldest) break;
  }
  return "room for " + std::to_string(rank.step.count) + " chunks in its slots, which rank " + std::to_string(*peer) +
         " has not read (step " + std::to_string(oldest.step) + "; slot_chunks is " +
         std::to_string(chunkings_[rank.call].slot_chunks) + ")";
}

void SymbolicRun::report_deadlock() {
  constexpr std::size_t kLongestChain = 8;
  std::string chain = "deadlock:";
  const auto stuck = std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.finished; });
  std::vector<int> seen;
  int at = stuck->layout.rank;
  while (seen.size() < kLongestChain && std::find(seen.begin(), seen.end(), at) == seen.end()) {
    seen.push_back(at);
    const Rank& rank = ranks_[at];
    if (rank.finished) {
      chain += "; rank " + std::to_string(at) + " has finished";
      break;
    }
    chain += (seen.size() == 1 ? " " : "; ") + where(rank) + " waits for " + waits_for(rank, &at);
  }
  throw Fault{chain};
}

std::string SymbolicRun::where(const Rank& rank) const {
  std::string place = "rank " + std::to_string(rank.layout.rank);
  if (calls_.size() > 1) place += ", call " + std::to_string(rank.call);
  if (rank.round > 0) place += ", round " + std::to_string(rank.round);
  if (rank.index < rank.steps) place += ", step " + std::to_string(rank.index) + " (" + text(rank.step) + ")";
  return place;
}

std::string SymbolicRun::words(const Rank& rank, const Value& value) const {
  return describe(value, contributors_, collective_of(rank), static_cast<int>(n_), maps_[rank.call].chunks());
}

void SymbolicRun::fail(const Rank& rank, const std::string& what) const { throw Fault{where(rank) + ": " + what}; }

}  // namespace tutti
