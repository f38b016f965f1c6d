#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/handles.h"

namespace tutti {

// One thread that waits for descriptors and timers and runs what they bring. It belongs to Process. Only event_loop.cc
// knows the library behind it.
//
// post() and call() may be called by any thread; everything else, here and in Timer and Watch, belongs to the loop's
// thread. Nothing that runs on it may block, and what is posted or called back must not throw.
class EventLoop {
 public:
  static constexpr const char* kThreadName = "tutti-control";

  EventLoop();
  // Runs what was posted before, then ends the thread. In a forked child there is no such thread: nothing is touched.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs it on the loop's thread, after everything posted before.
  void post(std::function<void()> work);
  // The same, and waits until it has run; throws its Error, and any other exception as Error(kSystem). REQUIRES: not
  // called on the loop's thread.
  void call(const std::function<void()>& work);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
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
