#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "communicator/call_context.h"
#include "executor/call.h"
#include "tutti/error.h"

namespace tutti {

// A call of a communicator that can be carried on: a collective, a send, a receive. Its position lies in itself and not
// on a stack, so any thread may carry it on between two steps, one at a time. A blocking call is an operation on its
// caller's stack; that of a stream lives until the stream has ended it.
//
// Nothing here sleeps.
class Operation {
 public:
  // limit: how long it may take; 0: as the communicator says.
  Operation(CallContext& context, std::chrono::milliseconds limit) : context_(context), limit_(limit) {}
  virtual ~Operation() {
    if (timed_out_) context_.stalls().forget(this);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Takes its place among the calls of its communicator. Once, before everything below.
  virtual void issue() = 0;
  // Carries it on as far as it goes; never throws. kAgain: it waits for its turn or for peers. kFailed: error() has the
  // reason. Not after it has ended.
  virtual Progress progress() = 0;
  // "all_reduce f32×1000 sum #3 of \"dp\"".
  virtual std::string describe() const = 0;
  // Of a collective, from 1; else 0.
  virtual std::uint64_t sequence() const { return 0; }
  // Of a receive that is done.
  virtual int source() const { return -1; }
  virtual std::size_t received() const { return 0; }  // elements

  // Its first step was tried.
  bool running() const { return running_; }
  // Whether the last progress() that answered kAgain had got on before it got stuck.
  bool advanced() const { return advanced_; }
  // It ends with the next progress(), as soon as it is its turn.
  bool is_doomed() const { return context_.health().failed() || context_.closed(); }
  const Error& error() const { return *error_; }
  CallContext& context() const { return context_; }
  std::chrono::milliseconds limit() const { return limit_.count() > 0 ? limit_ : context_.timeout(); }

  // For whoever carries it on: when it was issued, if somebody looked at the clock; that something moved for it; that
  // it got on itself; and, now and then while nothing does, that there is time for what costs more than a look at
  // memory.
  void issued_at(Clock::time_point now) { issued_ = now; }
  void note_moved() { idle_since_ = {}; }
  void note_advanced() { stall_.ended(); }
  void look_around(Clock::time_point now) noexcept;
  // When looking around is due, whatever happens: its limit is over then. Known once somebody has looked around.
  Clock::time_point due() const { return due_; }

 protected:
  // It has not got on for so long: notes for whom it waits. More often than check(), and must cost less.
  virtual void watch(Clock::duration idle) = 0;
  // Finds out whether it can end at all; every so often. idle: since it got on last.
  virtual void check(Clock::duration idle) = 0;
  virtual Clock::duration check_interval() const { return {}; }
  // What it ends with where its communicator has failed.
  Error failure() const;
  Progress fail(const Error& error) {
    error_.emplace(error);
    return Progress::kFailed;
  }

  CallContext& context_;
  bool running_ = false;
  bool advanced_ = false;

 private:
  void look(Clock::time_point now);

  const std::chrono::milliseconds limit_;
  Clock::time_point issued_{};
  Clock::time_point idle_since_{};
  Clock::duration next_check_{0};
  bool timed_out_ = false;
  Stall stall_;
  Clock::time_point next_complaint_{};
  Clock::time_point due_ = Clock::time_point::max();
  std::optional<Error> error_;
};

// Carries an operation on in the calling thread until it has ended, given what its first progress() has answered.
// Blocks; throws its error.
void drive(Operation& operation, Progress progress);

}  // namespace tutti
