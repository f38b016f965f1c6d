#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/sync.h"
#include "tutti/error.h"
#include "tutti/work.h"

namespace tutti::detail {

class StreamEngine;

// What all Works of one call on a stream or in a group stand for, or all of a group: whether it has ended and how, and
// who wants to know. Shared by the Works and by whoever carries the call on; outlives communicator and stream. Any
// thread.
class WorkState : public std::enable_shared_from_this<WorkState> {
 public:
  // engine: who carries it on; null in a group without a stream. group: what stands for all of the group that this is a
  // call of; null: none.
  explicit WorkState(std::shared_ptr<StreamEngine> engine, std::shared_ptr<WorkState> group = nullptr);
  ~WorkState();

  // For whoever makes and carries it on. It stands for so many calls; `sequence`: of the only one, 0 of a group.
  void issue(std::size_t calls, std::uint64_t sequence, Clock::time_point now);
  void start(Clock::time_point now);
  // One of its calls has ended; others_first: it has callbacks that are to run before this is done. True: that was the
  // last one, and settle() must follow if it calls_back(). Waits for nobody.
  bool end_call(const std::optional<Error>& error, int source, std::size_t count, Clock::time_point now,
                bool others_first);
  // Its calls have ended, and it is not done before settle().
  bool calls_back() const { return observe(stage_) == kSettling; }  // published by end_call()
  // Its calls have ended.
  bool has_ended() const { return observe(stage_) >= kSettling; }
  const std::shared_ptr<WorkState>& group() const { return group_; }
  // Runs the callbacks, if there are any; then it is done. Without any lock.
  void settle();
  // Nothing was issued: it is done, with or without an error.
  void end_without_calls(const std::optional<Error>& error);
  // Its Work.
  Work work();

  // What Work offers.
  bool done() const;
  // Until it is done, at most until the deadline: then false. Throws its error.
  bool wait(std::optional<Deadline> deadline);
  std::optional<Error> error() const;
  void then(Work::Callback callback);
  std::uint64_t sequence() const;
  int source() const;
  std::size_t count() const;
  Clock::time_point issued() const;
  Clock::time_point started() const;
  Clock::time_point ended() const;

 private:
  // In order. While it settles it is done for its callbacks and for nobody else, so that whoever waited for it finds
  // what they did.
  enum Stage : std::uint64_t { kRecorded, kIssued, kSettling, kDone };

  void check_may_wait() const;
  void call_back(Work::Callback callback);
  void note_error(const Error& error);
  template <class T>
  T read(const T& member) const {
    const std::lock_guard lock(mutex_);
    return member;
  }

  const std::shared_ptr<StreamEngine> engine_;  // shared: a Work may outlive its stream
  const std::shared_ptr<WorkState> group_;
  Word stage_{kRecorded};

  mutable std::mutex mutex_;   // guards what is below
  std::size_t calls_ = 0;      // that have not ended
  bool others_first_ = false;  // some of them have callbacks
  std::vector<Work::Callback> callbacks_;
  std::optional<Error> error_;
  std::uint64_t sequence_ = 0;
  int source_ = -1;
  std::size_t count_ = 0;
  Clock::time_point issued_{};
  Clock::time_point started_{};
  Clock::time_point ended_{};
};

}  // namespace tutti::detail
