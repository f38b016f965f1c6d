#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>

#include "base/clock.h"
#include "base/handles.h"
#include "tutti/error.h"

namespace tutti {

// One thread that waits for descriptors and timers and runs what they bring. It belongs to Process. Only event_loop.cc
// knows the library behind it.
//
// post() and call() may be called by any thread; everything else, here and in Timer and Watch, belongs to the loop's
// thread. Nothing that runs on it may block. What is posted or called back should not throw; when it does, because
// memory is out or the system refuses something at an unusual place, nobody knows what was left undone: everybody who
// has a TroubleHook is told.
class EventLoop {
 public:
  static constexpr const char* kThreadName = "tutti-control";

  // Who runs it: a thread of its own or, where none can be started, whoever uses it, in call(), wait() and pause().
  enum class Driver { kThread, kCaller };

  // Throws Error(kSystem).
  explicit EventLoop(Driver driver = Driver::kThread);
  // Runs what was posted before, then ends the thread. In a forked child there is no such thread: nothing is touched.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs it on the loop's thread, after everything posted before.
  void post(std::function<void()> work);
  // The same, and waits until it has run; throws its Error, and any other exception as Error(kSystem). REQUIRES: not
  // called on the loop's thread.
  void call(const std::function<void()>& work);
  // Until something on the loop has given the result, at most until the deadline: then false.
  template <class Result>
  bool wait(const std::future<Result>& result, Deadline deadline) {
    using std::future_status;
    if (!driven_by_caller()) return result.wait_until(deadline) == future_status::ready;
    return drive([&] { return result.wait_for(std::chrono::seconds(0)) == future_status::ready; }, deadline);
  }
  void pause(std::chrono::milliseconds time);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  bool driven_by_caller() const;
  bool drive(const std::function<bool()>& over, Deadline deadline);

  std::unique_ptr<Impl> impl_;
};

// Told, on the loop, of an exception there that nobody caught; may be destroyed then. Belongs to the loop's thread.
class TroubleHook {
 public:
  TroubleHook(EventLoop& loop, std::function<void(const Error&)> callback);
  ~TroubleHook();
  TroubleHook(const TroubleHook&) = delete;
  TroubleHook& operator=(const TroubleHook&) = delete;

 private:
  EventLoop& loop_;
  const std::uint64_t number_;
};

// Calls back once when its time has come. Destroying or arming it again forgets the earlier callback.
class Timer {
 public:
  explicit Timer(EventLoop& loop);
  ~Timer();
  Timer(Timer&&) noexcept;
  Timer& operator=(Timer&&) noexcept;

  void arm(Deadline when, std::function<void()> callback);
  void arm_after(std::chrono::milliseconds delay, std::function<void()> callback) {
    arm(Clock::now() + delay, std::move(callback));
  }
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the wait that is in flight, which may outlive the timer
};

// Owns a non-blocking descriptor and calls back, once for each request, when it can be read or written. A callback may
// destroy the watch.
class Watch {
 public:
  // Throws Error(kSystem) when the system watches no more descriptors; this one is closed then.
  Watch(EventLoop& loop, UniqueFd fd);
  ~Watch();
  Watch(Watch&&) noexcept;
  Watch& operator=(Watch&&) noexcept;

  int fd() const;
  void when_readable(std::function<void()> callback);
  void when_writable(std::function<void()> callback);
  // Gives the descriptor away; pending callbacks are forgotten.
  UniqueFd release();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the waits that are in flight, which may outlive the watch
};

}  // namespace tutti
