#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/fork.h"
#include "base/sync.h"
#include "communicator/callback_thread.h"
#include "communicator/doorbell.h"
#include "communicator/rotation.h"
#include "communicator/work_state.h"
#include "executor/waiter.h"

namespace tutti::detail {

// What is behind a HostStream: the calls that were issued to it, and a thread that carries them on. Whoever waits for
// one of them carries them on instead, and the thread keeps out of the way meanwhile: issuing a call and waiting for it
// costs little more than a blocking call. Shared by the HostStream, its thread and the Works. Any thread.
//
// Two locks: one for what issuing changes, held shortly, and the drive lock of whoever carries the calls on, who may
// sleep with it. Callbacks run in a thread of their own, without either: nobody who waits has them on its stack, and
// the calls go on whatever they do.
class StreamEngine : public std::enable_shared_from_this<StreamEngine> {
 public:
  StreamEngine() = default;
  ~StreamEngine();

  // Issues calls; the collectives among them progress together. work: what stands for all of them, `group` too if they
  // are a group's, else null. Numbers in the orders of their communicators, and places in the stream, are taken in one
  // go: no two calls can come to wait for each other. Throws Error: kInvalidArgument for a communicator that was
  // destroyed, kSystem when the thread cannot be started; nothing was issued then, and the calls are still there.
  void issue(Batch& collectives, Batch& transfers, const std::shared_ptr<WorkState>& work, WorkState* group);

  // Before a callback is put where it may have to run. Throws Error(kSystem) when there can be no thread for it, and
  // kUnsupported in a forked child.
  void expect_callbacks();

  // Carries calls on until this one is done, at most until the deadline: then false.
  bool help(const WorkState& work, std::optional<Deadline> deadline);

  // Until everything issued so far is done; throws the first error since the last synchronize().
  void synchronize();
  // When the HostStream goes: waits for its calls, unless it goes in one of their callbacks, and ends the threads.
  void close();

 private:
  // What the thread does. It naps while somebody helps with calls that are left: then it looks by itself soon.
  enum class State { kAwake, kNapping, kAsleep };
  class Helping;

  void check_process() const;
  void start_thread();
  void run_thread();
  // False: the stream was closed and all its calls have ended.
  bool sleep_until_needed();
  // With the drive lock, while nothing moves: waits a little. Returns whether it is time to look around.
  bool nap(Waiter& waiter, bool helping);
  // The thread should carry calls on: there are some, and nobody helps.
  bool needed() const { return peek(unsettled_) > 0 && peek(helpers_) == 0; }
  // With mutex_: the thread; whoever carries calls on.
  void wake();
  void wake_driver();

  // With the drive lock: carries everything on a little. Returns whether anything moved.
  bool turn(Waiter& waiter);
  // Gives the drive lock back; returns what has ended meanwhile, to be settled.
  using Works = std::vector<std::shared_ptr<WorkState>>;
  Works release();
  // Without a lock: hands over those with callbacks.
  void settle(const Works& ended);
  // It is done.
  void forget(const std::shared_ptr<WorkState>& work);
  void wait_for_all();
  bool is_pending(const std::shared_ptr<WorkState>& work);

  std::mutex mutex_;                             // guards what is below
  std::vector<std::pair<Batch, Batch>> issued_;  // collectives and transfers that the rotation does not have yet
  std::unordered_set<std::shared_ptr<WorkState>> pending_;
  std::optional<Error> first_error_;
  bool spin_ = true;  // all its communicators may
  State state_ = State::kAwake;
  bool rung_ = false;
  Sleepers* napping_ = nullptr;  // where whoever has the drive lock may sleep
  bool closed_ = false;
  std::optional<Doorbell> bell_;
  std::thread thread_;
  CallbackThread callbacks_;  // has its own lock; taken while mutex_ is held, never the other way round

  // Changed under mutex_, looked at without it.
  Word issues_{0};     // so often calls were issued
  Word unsettled_{0};  // works that have calls at work
  Word helpers_{0};

  // In a forked child there is no thread, and the locks may be held for ever.
  Word forked_{0};
  const MarkedAtFork in_child_{forked_, 1};

  std::mutex driving_;  // guards what is below
  Rotation rotation_;
  std::uint64_t taken_ = 0;  // of issues_
  std::uint32_t turns_ = 0;
};

}  // namespace tutti::detail
