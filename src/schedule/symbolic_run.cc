#include "schedule/symbolic_run.h"

#include <algorithm>
#include <numeric>

#include "schedule/peer_sets.h"
#include "schedule/step_rules.h"
#include "schedule/text.h"

namespace tutti {
namespace {

constexpr std::uint32_t kNotEntered = ~std::uint32_t{0};

std::vector<Chunking> chunkings(const Placement& placement, std::span<const SymbolicCall> calls) {
  std::vector<Chunking> result;
  for (const SymbolicCall& call : calls) result.push_back(call.algorithm->chunking(placement.layout(0)));
  return result;
}

int widest_window(std::span<const Chunking> chunkings) {
  int window = 1;
  for (const Chunking& chunking : chunkings) window = std::max(window, chunking.window);
  return window;
}

// All calls share one ring, which each cuts into chunks of its own size: count in units that fit them all.
std::uint64_t ring_units(std::span<const Chunking> chunkings) {
  std::uint64_t units = 1;
  for (const Chunking& chunking : chunkings) {
    units = std::lcm(units, static_cast<std::uint64_t>(std::max(1, chunking.slot_chunks)));
  }
  return units;
}

std::uint64_t hash(const Value& value) {
  return mix(value.data) ^ mix(value.ranks ^ value.passes) ^
         mix(value.epoch * 4u + (value.first ? 2u : 0u) + (value.last ? 1u : 0u));
}

}  // namespace

SymbolicRun::SymbolicRun(const Placement& placement, std::span<const SymbolicCall> calls, const Options& options)
    : calls_(calls),
      options_(options),
      n_(static_cast<std::size_t>(placement.ranks())),
      contributors_(placement.ranks()),
      chunkings_(chunkings(placement, calls)),
      reproducible_(reproducible_expression(placement.ranks())),
      network_(placement.ranks(), widest_window(chunkings_), ring_units(chunkings_)),
      reads_(placement.ranks()),
      writes_(placement.ranks()),
      ranks_(n_) {
  bool clocks = options.track_reads;
  for (std::size_t call = 0; call < calls.size(); ++call) {
    const Collective collective = calls[call].algorithm->collective;
    clocks = clocks || collective == Collective::kBarrier;
    maps_.emplace_back(collective, placement.ranks(), chunkings_[call].chunks, calls[call].root);
    costs_.push_back(ring_units(chunkings_) / static_cast<std::uint64_t>(std::max(1, chunkings_[call].slot_chunks)));
    for (int round = 0; round < options.rounds; ++round) results_.emplace_back(maps_.back().reduced_data());
  }
  if (clocks) {
    clocks_.assign(n_ * n_, 0);
    epoch_clocks_.assign(results_.size() * n_, kNotEntered);
  }
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    ranks_[rank].layout = placement.layout(rank);
    if (options.keep_text) texts_.note_leaf(rank);
  }
}

std::string SymbolicRun::run() {
  try {
    for (Rank& rank : ranks_) {
      begin_call(rank);
      wake(rank.layout.rank);
    }
    while (!runnable_.empty()) {
      Rank& rank = ranks_[runnable_.front()];
      runnable_.pop_front();
      rank.queued = false;
      while (!rank.finished && ready(rank)) {
        execute(rank);
        next(rank);
      }
    }
    if (!std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.finished; })) report_deadlock();
    check_left_over();
    return {};
  } catch (const Fault& fault) {
    return fault.text;
  }
}

void SymbolicRun::begin_call(Rank& rank) {
  rank.round = 0;
  if (++rank.call == static_cast<int>(calls_.size())) {
    rank.finished = true;
    return;
  }
  const int self = rank.layout.rank;
  const Chunking& chunking = chunkings_[rank.call];
  const Chunking own = call_of(rank).algorithm->chunking(rank.layout);
  if (own.chunks != chunking.chunks || own.scratch_chunks != chunking.scratch_chunks ||
      own.slot_chunks != chunking.slot_chunks || own.window != chunking.window) {
    fail(rank, "its chunking is not that of rank 0");
  }
  if (is_vector(collective_of(rank)) && chunking.chunks != 1)
    fail(rank, "blocks of different sizes have one chunk each");
  rank.steps = call_of(rank).algorithm->steps(rank.layout, call_of(rank).root);
  most_steps_ = std::max(most_steps_, rank.steps);

  const DataMap& map = maps_[rank.call];
  const DataMap::Overlap overlap = call_of(rank).in_place ? map.in_place(self) : DataMap::Overlap{};
  rank.scratch_chunks =
      static_cast<std::uint32_t>(std::max(static_cast<int>(rank.scratch_chunks), chunking.scratch_chunks));
  rank.input_base = rank.output_base = rank.scratch_chunks;
  if (overlap.overlaps) {
    rank.input_base += static_cast<std::uint32_t>(overlap.input_in_output);
    rank.output_base += static_cast<std::uint32_t>(overlap.output_in_input);
  } else {
    rank.output_base += static_cast<std::uint32_t>(map.input_chunks(self));
  }
  if (options_.track_reads) reads_.renew(self, rank.scratch_chunks, 0, rank.scratch_chunks);
  begin_round(rank);
}

void SymbolicRun::begin_round(Rank& rank) {
  const int self = rank.layout.rank;
  const DataMap& map = maps_[rank.call];
  const std::size_t user_end = std::max(rank.input_base + static_cast<std::uint32_t>(map.input_chunks(self)),
                                        rank.output_base + static_cast<std::uint32_t>(map.output_chunks(self)));
  rank.memory.resize(rank.scratch_chunks);
  rank.memory.resize(user_end);
  const std::uint64_t leaf = leaf_expression(self);
  for (int chunk = 0; chunk < map.input_chunks(self); ++chunk) {
    Value& value = rank.memory[rank.input_base + static_cast<std::uint32_t>(chunk)];
    value.data = map.input_data(self, chunk);
    value.epoch = static_cast<std::uint8_t>(epoch_of(rank));
    value.contributions = 1;
    value.ranks = contributors_.of(self);
    value.passes = leaf;
    value.tree = leaf;
    value.valid = true;
  }
  if (options_.track_reads) {
    reads_.renew(self, user_end, rank.scratch_chunks, user_end - rank.scratch_chunks);
    writes_.renew(self, user_end, rank.scratch_chunks);
  }
  if (!clocks_.empty()) epoch_clocks_[static_cast<std::size_t>(epoch_of(rank)) * n_ + self] = clock(self)[self];
  rank.index = -1;
  next(rank);
}

void SymbolicRun::end_round(Rank& rank) {
  const DataMap& map = maps_[rank.call];
  for (int chunk = 0; chunk < map.output_chunks(rank.layout.rank); ++chunk) check_output(rank, chunk);
  if (collective_of(rank) == Collective::kBarrier) check_barrier(rank);
  if (++rank.round < options_.rounds) {
    begin_round(rank);
  } else {
    begin_call(rank);
  }
}

void SymbolicRun::next(Rank& rank) {
  do {
    ++rank.index;
  } while (rank.index < rank.steps && skips(rank));
  if (rank.index < rank.steps) {
    fetch(rank);
  } else {
    end_round(rank);
  }
}

bool SymbolicRun::is_silent(const Rank& rank, std::uint32_t data) const {
  if (options_.silence == 0 || rank.round == 0) return false;
  const std::uint64_t one_in = 1 + options_.silence % 3;  // one in four blocks is empty, or two, or three
  return mix(options_.silence ^ data << 8) % 4 < one_in;
}

std::optional<std::uint32_t> SymbolicRun::named_data(const Rank& rank, const Step& step, bool source) const {
  const DataMap& map = maps_[static_cast<std::size_t>(rank.call)];
  const Space space = source ? step.source_space : step.destination_space;
  const int chunk = source ? step.source : step.destination;
  if (space == Space::kInput) return map.input_data(rank.layout.rank, chunk);
  if (space == Space::kOutput) return map.output_data(rank.layout.rank, chunk);
  return std::nullopt;
}

bool SymbolicRun::skips(const Rank& rank) const {
  if (options_.silence == 0 || rank.round == 0) return false;
  const Step step = call_of(rank).algorithm->step(rank.layout, call_of(rank).root, rank.index);
  const auto named = named_data(rank, step, true);
  const auto data = named ? named : named_data(rank, step, false);
  return data && is_silent(rank, *data);
}

void SymbolicRun::fetch(Rank& rank) {
  const int self = rank.layout.rank;
  rank.step = call_of(rank).algorithm->step(rank.layout, call_of(rank).root, rank.index);
  rank.messages_there = 0;
  rank.lines_free = 0;
  rank.from.clear();
  rank.to.clear();
  for_each_member(rank.layout, rank.step.from, [&rank](int peer) { rank.from.push_back(peer); });
  for_each_member(rank.layout, rank.step.to, [&rank](int peer) { rank.to.push_back(peer); });
  for (const std::vector<int>* peers : {&rank.from, &rank.to}) {
    for (const int peer : *peers) {
      if (peer == self) fail(rank, "it talks to itself");
      if (peer >= rank.layout.ranks) fail(rank, "there is no rank " + std::to_string(peer));
    }
  }
  const DataMap& map = maps_[rank.call];
  const StepLimits limits{collective_of(rank),
                          map.chunks(),
                          map.input_chunks(self),
                          map.output_chunks(self),
                          chunkings_[rank.call].scratch_chunks,
                          chunkings_[rank.call].slot_chunks};
  const std::string fault =
      step_fault(rank.step, limits, static_cast<int>(rank.from.size()), static_cast<int>(rank.to.size()));
  if (!fault.empty()) fail(rank, fault);
}

bool SymbolicRun::ready(Rank& rank) {
  const int self = rank.layout.rank;
  for (; rank.messages_there < rank.from.size(); ++rank.messages_there) {
    if (network_.waiting(rank.from[rank.messages_there], self) == 0) return false;
  }
  for (; rank.lines_free < rank.to.size(); ++rank.lines_free) {
    if (!network_.line_free(self, rank.to[rank.lines_free])) return false;
  }
  return rank.to.empty() || network_.slot_free(self, rank.step.count * costs_[rank.call]);
}

void SymbolicRun::wake(int rank) {
  if (ranks_[rank].queued || ranks_[rank].finished) return;
  ranks_[rank].queued = true;
  runnable_.push_back(rank);
}

void SymbolicRun::execute(Rank& rank) {
  const int self = rank.layout.rank;
  inbox_.clear();
  for (const int peer : rank.from) take_message(rank, peer);
  if (!clocks_.empty()) ++clock(self)[self];

  value_.clear();
  for (int chunk = 0; chunk < rank.step.count; ++chunk) value_.push_back(combine(rank, chunk));
  if (is_vector(collective_of(rank))) check_block(rank);
  if (options_.track_reads) {
    for (const int peer : rank.from) {
      const Network::Arrival arrival = network_.front(peer, self);
      const std::size_t reads = network_.message(arrival.message).reads;
      if (reads == ReadTracker::kNotRead) continue;
      const Value result = value_.empty() ? Value{} : value_.front();
      reads_.received(reads + arrival.reader, clock(self)[self], rank.index, result);
    }
    deliver(rank);
    note_uses(rank);
  }
  if (stores(rank.step)) store(rank);
  for (const int peer : rank.from) {
    network_.consume(peer, self);
    wake(peer);
  }
  if (!rank.to.empty()) publish(rank);
}

void SymbolicRun::take_message(Rank& rank, int peer) {
  const int self = rank.layout.rank;
  const Message& message = network_.message(network_.front(peer, self).message);
  if (rank.step.part + rank.step.count > message.count) {
    fail(rank, "it takes chunks " + std::to_string(rank.step.part) + " … " +
                   std::to_string(rank.step.part + rank.step.count - 1) + " of the message that rank " +
                   std::to_string(peer) + " sent at step " + std::to_string(message.step) + ", which has " +
                   std::to_string(message.count));
  }
  const int chunks = chunkings_[rank.call].chunks;
  if (rank.step.count > 0 && (message.shape + rank.step.part) % chunks != rank.step.shape % chunks) {
    fail(rank, "its shape is " + std::to_string(rank.step.shape) + ", but chunk " + std::to_string(rank.step.part) +
                   " of the message that rank " + std::to_string(peer) + " sent at step " +
                   std::to_string(message.step) + " has shape " + std::to_string(message.shape + rank.step.part));
  }
  inbox_.emplace_back(peer, &message);
  if (clocks_.empty()) return;
  const std::span<std::uint32_t> own = clock(self);
  for (std::size_t i = 0; i < n_; ++i) own[i] = std::max(own[i], message.clock[i]);
}

std::uint32_t SymbolicRun::cell(const Rank& rank, Space space, int chunk) const {
  const std::uint32_t base = space == Space::kInput ? rank.input_base : space == Space::kOutput ? rank.output_base : 0;
  return base + static_cast<std::uint32_t>(chunk);
}

Value SymbolicRun::load(const Rank& rank, int chunk) const {
  Value value = rank.memory[cell(rank, rank.step.source_space, rank.step.source + chunk)];
  if (!value.valid) {
    fail(rank, "it reads " + text(rank.step.source_space, rank.step.source + chunk, 1) + ", which holds nothing yet");
  }
  if (!rank.step.first) return value;
  if (value.contributions != 1 || value.ranks != contributors_.of(rank.layout.rank) || value.first) {
    fail(rank, "it applies the input map (first) to something else than this rank's own input: " + words(rank, value));
  }
  value.first = true;
  return value;
}

Value SymbolicRun::combine(const Rank& rank, int chunk) {
  const int self = rank.layout.rank;
  const Step& step = rank.step;
  bool own = step.source_space != Space::kNone;
  operands_.clear();
  for (const auto& [peer, message] : inbox_) {
    if (own && peer > self) {
      operands_.push_back(load(rank, chunk));
      own = false;
    }
    operands_.push_back(message->values[static_cast<std::size_t>(step.part + chunk)]);
  }
  if (own) operands_.push_back(load(rank, chunk));

  Value result = operands_[0];
  for (const Value& operand : operands_) {
    if (operand.epoch != epoch_of(rank)) fail(rank, "it uses a value of an earlier round or call");
    if (operand.data % static_cast<std::uint32_t>(maps_[rank.call].chunks()) !=
        static_cast<std::uint32_t>((step.shape + chunk) % maps_[rank.call].chunks())) {
      fail(rank, "its shape is " + std::to_string(step.shape + chunk) + ", but the value is " + words(rank, operand));
    }
  }
  for (std::size_t i = 1; i < operands_.size(); ++i) {
    const Value& operand = operands_[i];
    if (operand.data != result.data || contributors_.overlap(result.ranks, operand.ranks) || !operand.first ||
        !result.first || operand.last || result.last) {
      const char* why = operand.data != result.data                          ? "different data"
                        : contributors_.overlap(result.ranks, operand.ranks) ? "a contribution with itself"
                        : operand.last || result.last                        ? "after the output map (last)"
                                                                             : "before the input map (first)";
      fail(rank, std::string("it combines ") + why + ": " + words(rank, result) + " and " + words(rank, operand));
    }
    result.ranks += operand.ranks;
    result.contributions = static_cast<std::uint16_t>(result.contributions + operand.contributions);
  }
  if (step.last && result.last) fail(rank, "it applies the output map (last) again to " + words(rank, result));
  if (operands_.size() == 1 && !step.last) return result;

  const bool last = step.last;
  passes_.clear();
  trees_.clear();
  for (const Value& operand : operands_) {
    passes_.push_back(operand.passes);
    trees_.push_back(operand.tree);
  }
  result.last = last;
  result.passes = pass_expression(passes_, last);
  if (options_.keep_text) {
    texts_.note_pass(result.passes, passes_, last);
    texts_.note_tree(trees_, last);
  }
  result.tree = tree_expression(trees_, last);
  return result;
}

// Both ends of a message know how long it is from the block that their steps name: these must be one block.
void SymbolicRun::check_block(const Rank& rank) const {
  for (const bool source : {true, false}) {
    const auto named = named_data(rank, rank.step, source);
    if (!named || *named == value_.front().data) continue;
    fail(rank, "its value is " + words(rank, value_.front()) + ", but its " + (source ? "source" : "destination") +
                   " is " + describe_data(collective_of(rank), rank.layout.ranks, 1, *named) +
                   ", which may have another length");
  }
}

void SymbolicRun::store(Rank& rank) {
  const Step& step = rank.step;
  const std::uint32_t to = cell(rank, step.destination_space, step.destination);
  if (step.source_space != Space::kNone) {
    const std::uint32_t from = cell(rank, step.source_space, step.source);
    if (from != to && from < to + step.count && to < from + step.count) {
      fail(rank, "its source and destination overlap without being the same");
    }
    // A copy onto itself writes nothing: peers may go on reading there.
    if (from == to && step.kind == StepKind::kCopy && !step.first && !step.last) return;
  }
  for (std::uint32_t i = 0; i < step.count; ++i) {
    rank.memory[to + i] = value_[i];
    if (options_.track_reads) {
      reads_.stored(rank.layout.rank, rank.index, to + i, value_[i], clock(rank.layout.rank));
    }
  }
}

// What this step receives might have been written where it belongs, when its sender published it.
void SymbolicRun::deliver(const Rank& rank) {
  const Step& step = rank.step;
  const bool stored = step.kind == StepKind::kRecv && step.destination_space == Space::kOutput && step.count == 1;
  for (const auto& [peer, message] : inbox_) {
    if (message->stored_at < 0) continue;
    const int self = rank.layout.rank;
    const bool plain = stored && step.part == 0 && message->count == 1 && message->stored_at == step.destination;
    writes_.received({peer, message->step, message->clock, self, rank.index, call_of(rank).in_place, plain,
                      plain ? cell(rank, Space::kOutput, step.destination) : 0},
                     reads_);
  }
}

// Which cells of its rank's memory a step reads or stores.
void SymbolicRun::note_uses(const Rank& rank) {
  const int self = rank.layout.rank;
  const Step& step = rank.step;
  for (std::uint32_t i = 0; i < step.count; ++i) {
    const std::uint32_t tick = clock(self)[self];
    if (step.source_space != Space::kNone) {
      writes_.used(self, cell(rank, step.source_space, step.source) + i, tick, rank.index);
    }
    if (stores(step)) {
      writes_.used(self, cell(rank, step.destination_space, step.destination) + i, tick, rank.index);
    }
  }
}

void SymbolicRun::publish(Rank& rank) {
  const int self = rank.layout.rank;
  const Step& step = rank.step;
  const std::uint32_t number =
      network_.begin_message(self, step.count * costs_[rank.call], static_cast<int>(rank.to.size()));
  Message& message = network_.fill(number);
  message.values.assign(value_.begin(), value_.end());
  message.call = rank.call;
  message.round = rank.round;
  message.step = rank.index;
  message.count = step.count;
  message.shape = step.shape;
  const bool names_place = step.destination_space == Space::kOutput || step.writable != kWritableNever;
  message.stored_at = names_place && step.count == 1 ? step.destination : -1;
  message.reads = ReadTracker::kNotRead;
  if (!clocks_.empty()) message.clock.assign(clock(self).begin(), clock(self).end());
  for (const Value& value : value_) rank.sent_hash = mix(rank.sent_hash ^ hash(value));
  if (options_.track_reads && step.count > 0 && (step.kind == StepKind::kSend || stores(step))) {
    const std::uint32_t first = step.kind == StepKind::kSend ? cell(rank, step.source_space, step.source)
                                                             : cell(rank, step.destination_space, step.destination);
    message.reads = reads_.sent(self, rank.round, rank.index, first, value_, rank.to);
    if ((step.readable & (call_of(rank).in_place ? kReadableInPlace : kReadableOutOfPlace)) != 0) {
      for (std::uint32_t i = 0; i < step.count; ++i) writes_.lent(self, first + i, message.reads, rank.to.size());
    }
  }
  std::uint32_t reader = 0;
  for (const int peer : rank.to) {
    network_.publish(number, peer, reader++);
    wake(peer);
  }
  messages_ += rank.to.size();
}

}  // namespace tutti
