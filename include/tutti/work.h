#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/requirements.h"  // first

namespace tutti {

namespace detail {
class WorkState;
}

// A call that was issued: to be polled, waited for or chained. Calls without a stream return one that is done. A call
// in a group has its own, and Group::end() returns one that stands for all of them. Copies stand for the same call;
// dropping them does not end it. It may outlive its communicator and its stream. Any thread.
class TUTTI_API Work {
 public:
  using Callback = std::function<void(const Work&)>;
  using Time = std::chrono::steady_clock::time_point;

  // Done, of no call.
  Work() = default;

  // Whether it has ended, well or with an error, and its callbacks have returned (in a callback: whether it has ended).
  // Never blocks, never throws.
  bool done() const;
  // Blocks until it is done; throws its error. The waiting thread helps: it carries the stream's calls on itself, but
  // runs no callbacks. Of a call in a group that has not been ended: throws kInvalidArgument.
  void wait() const;
  // The same for at most so long; false: it is not done (and goes on). Throws kInvalidArgument for a negative limit.
  bool wait(std::chrono::milliseconds limit) const;
  // Why it failed; nothing while it runs or when it went well. The first error is kept, also one of a callback. Of a
  // group: the first of its calls.
  std::optional<Error> error() const;
  // Calls back once, when it has ended: in a thread that the stream has for its callbacks, one after the other in the
  // order in which the calls ended; of a group without a stream in Group::end(), when all its calls have ended; or at
  // once in this thread if it is done already. The callback may issue and make calls, and wait for whatever it likes,
  // while the stream's calls go on; but not for a call of the same stream: that throws kInvalidArgument. Its calls are
  // in no group but its own. It may own its communicator and its stream. What it throws is logged and becomes the error
  // if there was none: an Error with its own code, anything else with kCallback. Where the call was done when it
  // returned, without a stream or group, it is only logged. Throws kInvalidArgument for no function, and kSystem when
  // the thread for callbacks cannot be started.
  void then(Callback callback) const;

  // Of a collective: its number on its communicator, from 1. 0 for sends, receives and groups.
  std::uint64_t sequence() const;
  // Of a receive that is done: the rank that it received from; -1 otherwise.
  int source() const;
  // Of a receive that is done: how many elements came, at most as many as there was room for; 0 otherwise.
  std::size_t count() const;
  // When it was issued, began to run, and ended: of a group, when its first call began and its last ended. The default
  // value when that is not so yet, or for calls without a stream or group, whose times nobody takes.
  Time issued() const;
  Time started() const;
  Time ended() const;

 private:
  friend class Communicator;
  friend class detail::WorkState;
  static Work finished(std::uint64_t sequence, int source, std::size_t count = 0) {
    Work work;
    work.sequence_ = sequence;
    work.source_ = source;
    work.count_ = count;
    return work;
  }

  std::shared_ptr<detail::WorkState> state_;  // shared with whoever carries the call on; null: done when it was made
  std::uint64_t sequence_ = 0;
  int source_ = -1;
  std::size_t count_ = 0;
};

}  // namespace tutti
