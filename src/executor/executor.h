#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/health.h"
#include "executor/call.h"
#include "executor/channel.h"
#include "transport/shm/sleepers.h"
#include "transport/transport.h"

namespace tutti {

// Carries calls on: one per communicator, rank and kind of processor. It has no thread of its own: whoever calls
// progress() lends it one. Calls are executed one after the other, each by one thread at a time.
//
// Never sleeps; allocates only when scratch memory grows.
class Executor {
 public:
  // What a message that does not belong to the call looked like.
  struct Mismatch {
    int peer = -1;
    std::uint64_t signature = 0;
  };

  virtual ~Executor() = default;

  // Makes a call ready to run: `call` has its plan, buffers, types, sequence, signature and blocks; count (without
  // blocks) and chunk_bytes give the rest. Throws Error(kSystem) when memory for a long message is not to be had.
  virtual void start(Call& call, std::size_t count, std::size_t chunk_bytes) = 0;

  // Carries the call on as far as it goes. kAgain: it waits for a peer. kFailed: the communicator has failed and Health
  // has the reason, or mismatch() tells why it has to fail.
  virtual Progress progress(Call& call) = 0;
  // The same for a call that start() has made repeatable and that is over: once more, with new buffers, sequence and
  // signature. Finds out again what depends on the buffers, and throws std::bad_alloc as start() does.
  virtual Progress repeat(Call& call) = 0;
  // Whether the last progress() that answered kAgain had done a step before it got stuck.
  virtual bool advanced() const = 0;
  // A peer whose message or room the call waits for now, the first in the order of its steps; -1: none.
  virtual int first_awaited(const Call& call) const = 0;
  // Set when progress() failed for it.
  virtual const Mismatch& mismatch() const = 0;

  // After a call has failed: from now on no transport writes to the caller's buffers, and no peer believes what it
  // reads there. REQUIRES: the communicator has failed, or does at once.
  virtual void withdraw() = 0;
  // After that: from now on nothing that peers still write is seen in outputs of calls that have failed. REQUIRES: no
  // call is under way. Throws Error(kSystem) where there is not enough memory for that.
  virtual void take_back_outputs() = 0;
};

// What an executor works on. Everything outlives it.
struct ExecutorParts {
  std::span<const std::unique_ptr<Channel>> channels;
  std::span<Transport* const> transports;
  Health& health;
  Word& progress;                // this rank's word that peers read when they lack credit
  Word* started = nullptr;       // the last call begun, for peers that wait; null: nobody asks
  Word* long_call = nullptr;     // the last long call begun, for peers that watch distances; null: nobody does
  Line* notice = nullptr;        // where this rank says where its output lies; null: only in messages
  OperationLog* log = nullptr;   // null: calls are not entered
  Word* processor = nullptr;     // where this rank says on which processor it runs; null: there is one for every rank
  Sleepers* sleepers = nullptr;  // null: no rank of this host sleeps
};

// A row of the registry of executors.
struct ExecutorRow {
  std::string_view name;
  std::unique_ptr<Executor> (*make)(const ExecutorParts& parts);
};

// In order of preference. Those of devices will say which memory they serve; the host's serves all that the processor
// can read.
std::span<const ExecutorRow> executor_rows();

}  // namespace tutti
