#pragma once

#include <time.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/sync.h"
#include "executor/signature.h"

namespace tutti {

// How far an operation is.
enum class Phase : std::uint8_t {
  kQueued,   // issued; waits for its turn
  kRunning,  // its turn has come
  kDone,
  kFailed,
  kCancelled,  // it ended before it began, because something else had failed
};
const char* name(Phase phase);  // "queued" …
constexpr bool has_ended(Phase phase) { return phase >= Phase::kDone; }

// One operation as its log knows it.
struct OperationRecord {
  enum class Kind : std::uint8_t { kCollective, kSend, kReceive };
  using Time = std::chrono::nanoseconds;  // of the monotonic clock

  Kind kind = Kind::kCollective;
  Phase phase = Phase::kQueued;
  std::uint64_t number = 0;     // of a collective: its sequence number; of a transfer: among this rank's transfers
  std::uint64_t signature = 0;  // of a collective
  CallShape shape;              // of a transfer: type and count
  int peer = -1;                // of a transfer; -1: any
  int tag = 0;                  // of a transfer
  // Zero: not yet, or not known. Looking at a clock costs more than a short call may: `issued` has the resolution of
  // the kernel's tick (1 to 10 ms), of calls that did not wait only every 32nd has it, and of those only long ones
  // have `ended`.
  Time issued{0};
  Time started{0};  // when its turn came, if it had to wait for that
  Time ended{0};
  int waited_for = -1;  // the rank that it waits for, or waited for last
  std::chrono::microseconds waited{0};
};

// The last operations of a rank on one communicator: what messages about them, reports of stalls and dumps tell. A ring
// for collectives and one for sends and receives. Fixed size, never allocates, never blocks; any thread may read, and
// sees each entry whole or not at all.
//
// The ring of collectives is filled by one thread at a time, in the order of sequence numbers; transfers are entered by
// any thread. An entry is carried on by whoever carries the operation on. An operation that has not ended is never
// overwritten: when the ring has come round to it, newer ones are not entered.
class OperationLog {
 public:
  static constexpr std::size_t kEntries = 1024;

  // An operation's place in the log: a cache line. Null stands for none; valid until the operation has ended.
  struct alignas(64) Entry {
    Word number{0};  // 0: never used, or being written
    Word kinds{0};   // kind 8 bits, collective 8, type 8, operation 8, root or peer + 1 32
    Word count{0};
    Word detail{0};  // of a collective: signature; of a transfer: tag
    Word issued{0};  // nanoseconds
    Word started{0};
    Word ended{0};
    Word state{0};  // see OperationLog::State
  };
  static_assert(sizeof(Entry) == 64);

  // The word that the messages of a collective carry. One thread at a time: whose turn it is. A call like the one
  // before it costs next to nothing.
  std::uint64_t sign(const CallShape& shape, std::uint64_t sequence) {
    return sign(kinds_of(shape), shape.count, sequence);
  }
  std::uint64_t sign(std::uint64_t kinds, std::uint64_t count, std::uint64_t sequence);
  // Enters a collective whose turn it is. `quick`: one of which every few nanoseconds matter, so that only every
  // 32nd gets its time; stamp() gives it to others when it turns out that they wait.
  Entry* enter(const CallShape& shape, std::uint64_t sequence, std::uint64_t signature, bool quick);
  static void stamp(Entry* entry) {
    if (entry != nullptr && peek(entry->issued) == 0) publish(entry->issued, coarse_now());  // observed by read()
  }
  // Enters one that has to wait for its turn; any thread.
  Entry* enter_queued(const CallShape& shape, std::uint64_t sequence);
  Entry* enter_transfer(bool sending, DataType type, std::uint64_t count, int peer, int tag);

  // Its turn has come, after it was kQueued.
  static void begin(Entry* entry);
  // It has waited so long, for this rank (-1: not known). Not for the fast path.
  static void wait(Entry* entry, int peer, std::chrono::nanoseconds waited);
  // `timed`: it moved so much that the time of its end is worth knowing, as it is of those that waited.
  static void end(Entry* entry, Phase phase, bool timed);

  // False: not issued yet, not entered, overwritten long ago, or being overwritten right now.
  bool find(std::uint64_t sequence, OperationRecord& record) const;
  bool find(std::uint64_t sequence, CallShape& shape) const {
    OperationRecord record;
    if (!find(sequence, record)) return false;
    shape = record.shape;
    return true;
  }
  // All that can be read, in the order of their issue. Allocates.
  std::vector<OperationRecord> records() const;

  // For measuring what the log costs: while it is off, nothing is entered and signatures tell calls apart no more.
  // REQUIRES: no call; the same on all ranks.
  void switch_recording(bool on) { recording_ = on; }

 private:
  static constexpr std::uint64_t kTimedCalls = 32;
  static constexpr int kTries = 64;  // places that a transfer looks at for one that is free

  // The word that changes while an operation goes on: 3 bits say whether the entry is used and which Phase it is in,
  // two which of its times are set; then come, 27 bits, the rank waited for + 1, and, 32 bits, the microseconds.
  struct State {
    static constexpr std::uint64_t kPhase = 7;
    static constexpr std::uint64_t kClaimed = 7;  // a transfer is being entered
    static constexpr std::uint64_t kStarted = 8;
    static constexpr std::uint64_t kEnded = 16;
    static constexpr int kPeerShift = 5;
    static constexpr int kWaitedShift = 32;

    static constexpr std::uint64_t of(Phase phase) { return static_cast<std::uint64_t>(phase) + 1; }
    // Whether what the entry holds may be overwritten.
    static constexpr bool is_free(std::uint64_t state) {
      return (state & kPhase) == 0 || ((state & kPhase) != kClaimed && (state & kPhase) >= of(Phase::kDone));
    }
  };

  static std::uint64_t coarse_now() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  }
  static void write(Entry& entry, const CallShape& shape, std::uint64_t sequence, std::uint64_t signature, Phase phase,
                    std::uint64_t now);
  static bool read(const Entry& entry, OperationRecord& record);

  bool recording_ = true;
  // Of the last call that was signed, and of the next one: its hashes are ready when it comes.
  struct {
    std::uint64_t kinds = 0;
    std::uint64_t count = 0;
    std::uint64_t shape_hash = hash_of(0, 0);
    std::uint64_t sequence = 1;
    std::uint64_t sequence_hash = mix(1);
  } next_;
  Word next_transfer_{1};
  std::array<Entry, kEntries> collectives_;  // by sequence number
  std::array<Entry, kEntries> transfers_;
};

inline std::uint64_t OperationLog::sign(std::uint64_t kinds, std::uint64_t count, std::uint64_t sequence) {
  if (!recording_) return sequence & 0xFFFF;
  if (kinds != next_.kinds || count != next_.count) {
    next_.kinds = kinds;
    next_.count = count;
    next_.shape_hash = hash_of(kinds, count);
  }
  if (sequence != next_.sequence) next_.sequence_hash = mix(sequence);
  return signature_of(next_.shape_hash, next_.sequence_hash, sequence);
}

inline OperationLog::Entry* OperationLog::enter(const CallShape& shape, std::uint64_t sequence, std::uint64_t signature,
                                                bool quick) {
  if (!recording_) return nullptr;
  Entry& entry = collectives_[sequence % kEntries];
  const bool timed = !quick || sequence % kTimedCalls == 0;
  write(entry, shape, sequence, signature, Phase::kRunning, timed ? coarse_now() : 0);
  // For the next call. The ring is longer than the first cache, and stores become visible in their order: no message
  // may wait for one to the ring.
  __builtin_prefetch(&collectives_[(sequence + 1) % kEntries], 1);
  next_.sequence = sequence + 1;
  next_.sequence_hash = mix(sequence + 1);
  return &entry;
}

inline void OperationLog::write(Entry& entry, const CallShape& shape, std::uint64_t sequence, std::uint64_t signature,
                                Phase phase, std::uint64_t now) {
  note(entry.number, 0);
  // Each of these publishes the zero above before its own value, for read().
  publish(entry.kinds, static_cast<std::uint64_t>(shape.collective) << 8 |
                           static_cast<std::uint64_t>(shape.type) << 16 | static_cast<std::uint64_t>(shape.op) << 24 |
                           static_cast<std::uint64_t>(shape.root) << 32);
  publish(entry.count, shape.count);
  publish(entry.detail, signature);
  publish(entry.issued, now);
  publish(entry.state, State::of(phase));
  publish(entry.number, sequence);
}

inline void OperationLog::end(Entry* entry, Phase phase, bool timed) {
  if (entry == nullptr) return;
  std::uint64_t state = (peek(entry->state) & ~State::kPhase) | State::of(phase);
  if (timed || state >> State::kWaitedShift != 0) {
    publish(entry->ended, static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()));
    state |= State::kEnded;
  }
  publish(entry->state, state);  // observed by read(), with the time; by issue(), which may overwrite the entry now
}

}  // namespace tutti
