#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/opening.h"
#include "communicator/rotation.h"
#include "communicator/work_state.h"
#include "tutti/stream.h"

namespace tutti {

// What the calling thread has called since its outermost Group began. Owned by that Group; its thread only.
class GroupCalls {
 public:
  // What a call ends with whose group was not ended.
  static constexpr const char* kNotEnded = "its group was not ended, so that it was never issued: call Group::end()";

  explicit GroupCalls(Stream stream);
  ~GroupCalls();
  GroupCalls(const GroupCalls&) = delete;
  GroupCalls& operator=(const GroupCalls&) = delete;

  // Null: the thread is in no group.
  static GroupCalls* current() { return current_; }
  // While one lives, on the stack, its thread is in no group.
  class Outside {
   public:
    Outside() : left_(std::exchange(current_, nullptr)) {}
    ~Outside() { current_ = left_; }
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

   private:
    GroupCalls* const left_;
  };

  Stream stream() const { return stream_; }
  // Of calls that have none of their own; 0: that of their communicator.
  std::chrono::milliseconds limit() const { return limit_; }
  const std::shared_ptr<detail::WorkState>& work() const { return work_; }
  // A call of this group; returns its Work.
  Work add_collective(PendingCall call) { return add(collectives_, std::move(call)); }
  Work add_transfer(PendingCall call) { return add(transfers_, std::move(call)); }
  void add_opening(std::shared_ptr<Opening> opening) { openings_.push_back(std::move(opening)); }

  // Of a nested group: what was there when it began.
  struct Mark {
    std::size_t collectives;
    std::size_t transfers;
    std::size_t openings;
    std::chrono::milliseconds limit;
  };
  // limit: of the calls in it; 0: that of the group around it.
  Mark begin_level(std::chrono::milliseconds limit);
  // Ends the process when another thread than the one that made it drops it: that thread's calls would go on to be put
  // where it was.
  void check_thread() const;
  // Checks that this level is the innermost one of this thread. Throws Error(kInvalidArgument).
  void check_innermost(std::size_t level) const;
  std::size_t levels() const { return levels_; }
  void end_level(const Mark& mark);
  // Forgets the calls since then, whose Works end.
  void drop_from(const Mark& mark);

  // Opens the communicators, then issues the calls: with a stream it returns at once, else when all are done. Throws
  // the first error.
  void run();

 private:
  Work add(Batch& batch, PendingCall call);
  void drive();

  static inline constinit thread_local GroupCalls* current_ __attribute__((tls_model("initial-exec"))) = nullptr;

  const Stream stream_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::size_t levels_ = 0;
  std::chrono::milliseconds limit_{0};
  std::shared_ptr<detail::WorkState> work_;  // of all calls together; shared with theirs
  Batch collectives_;
  Batch transfers_;
  std::vector<std::shared_ptr<Opening>> openings_;  // shared with the Communicators that were returned
};

}  // namespace tutti
