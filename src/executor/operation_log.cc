#include "executor/operation_log.h"

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kRankMask = (std::uint64_t{1} << 27) - 1;

std::uint64_t precise_now() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

}  // namespace

const char* name(Phase phase) {
  constexpr const char* kNames[] = {"queued", "running", "done", "failed", "cancelled"};
  return kNames[static_cast<int>(phase)];
}

OperationLog::Entry* OperationLog::enter_queued(const CallShape& shape, std::uint64_t sequence) {
  Entry& entry = collectives_[sequence % kEntries];
  // Whose place it was has ended, so nobody but this call writes here.
  const std::uint64_t before = sequence > kEntries ? sequence - kEntries : 0;
  if (!recording_ || !State::is_free(observe(entry.state)) || observe(entry.number) != before) return nullptr;
  write(entry, shape, sequence, signature_of(shape, sequence), Phase::kQueued, coarse_now());
  return &entry;
}

OperationLog::Entry* OperationLog::enter_transfer(bool sending, DataType type, std::uint64_t count, int peer, int tag) {
  if (!recording_) return nullptr;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t number = take_number(next_transfer_);
    Entry& entry = transfers_[number % kEntries];
    const std::uint64_t before = observe(entry.state);  // published by end()
    if (!State::is_free(before) || !claim(entry.state, before, State::kClaimed)) continue;
    note(entry.number, 0);
    // As in write().
    const auto kind = sending ? OperationRecord::Kind::kSend : OperationRecord::Kind::kReceive;
    publish(entry.kinds, static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(type) << 16 |
                             static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer + 1)) << 32);
    publish(entry.count, count);
    publish(entry.detail, static_cast<std::uint64_t>(static_cast<std::uint32_t>(tag)));
    publish(entry.issued, coarse_now());
    publish(entry.state, State::of(Phase::kRunning));
    publish(entry.number, number);
    return &entry;
  }
  return nullptr;
}

void OperationLog::begin(Entry* entry) {
  if (entry == nullptr) return;
  publish(entry->started, precise_now());
  publish(entry->state, State::of(Phase::kRunning) | State::kStarted);  // observed by read(), with the time
}

void OperationLog::wait(Entry* entry, int peer, nanoseconds waited) {
  if (entry == nullptr) return;
  const auto longest = static_cast<std::int64_t>(std::numeric_limits<std::uint32_t>::max());
  const auto us = std::min<std::int64_t>(std::chrono::duration_cast<microseconds>(waited).count(), longest);
  const std::uint64_t kept = peek(entry->state) & (State::kPhase | State::kStarted | State::kEnded);
  publish(entry->state, kept | static_cast<std::uint64_t>(peer + 1) << State::kPeerShift |
                            static_cast<std::uint64_t>(us) << State::kWaitedShift);
}

bool OperationLog::read(const Entry& entry, OperationRecord& record) {
  const std::uint64_t number = observe(entry.number);  // published by write() or enter_transfer()
  const std::uint64_t state = observe(entry.state);
  if (number == 0 || (state & State::kPhase) == 0 || (state & State::kPhase) == State::kClaimed) return false;
  const std::uint64_t kinds = observe(entry.kinds);
  const std::uint64_t detail = observe(entry.detail);
  record = {};
  record.kind = static_cast<OperationRecord::Kind>(kinds & 0xFF);
  record.phase = static_cast<Phase>((state & State::kPhase) - 1);
  record.number = number;
  record.shape.type = static_cast<DataType>(kinds >> 16 & 0xFF);
  record.shape.count = observe(entry.count);
  if (record.kind == OperationRecord::Kind::kCollective) {
    record.signature = detail;
    record.shape.collective = static_cast<Collective>(kinds >> 8 & 0xFF);
    record.shape.op = static_cast<ReduceOp::Kind>(kinds >> 24 & 0xFF);
    record.shape.root = static_cast<std::uint32_t>(kinds >> 32);
  } else {
    record.peer = static_cast<int>(kinds >> 32) - 1;
    record.tag = static_cast<int>(static_cast<std::uint32_t>(detail));
  }
  record.issued = nanoseconds(observe(entry.issued));
  if ((state & State::kStarted) != 0) record.started = nanoseconds(observe(entry.started));
  if ((state & State::kEnded) != 0) record.ended = nanoseconds(observe(entry.ended));
  record.waited_for = static_cast<int>(state >> State::kPeerShift & kRankMask) - 1;
  record.waited = microseconds(state >> State::kWaitedShift);
  // Whoever saw anything of a later operation sees its zero here, or what came after it.
  return observe(entry.number) == number;
}

bool OperationLog::find(std::uint64_t sequence, OperationRecord& record) const {
  return read(collectives_[sequence % kEntries], record) && record.number == sequence;
}

std::vector<OperationRecord> OperationLog::records() const {
  std::vector<OperationRecord> found;
  OperationRecord record;
  for (const auto* ring : {&collectives_, &transfers_}) {
    for (const Entry& entry : *ring) {
      if (read(entry, record)) found.push_back(record);
    }
  }
  std::sort(found.begin(), found.end(), [](const OperationRecord& a, const OperationRecord& b) {
    return a.issued != b.issued ? a.issued < b.issued : a.number < b.number;
  });
  return found;
}

}  // namespace tutti
