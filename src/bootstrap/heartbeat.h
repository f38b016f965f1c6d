#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "bootstrap/event_loop.h"

namespace tutti {

// When to give a sign of life and to look for those of others: several times within the silence that counts as death.
// Belongs to its owner and the loop's thread.
class Heartbeat {
 public:
  // overslept: this thread itself did not run in time; the signs of life of others wait in the sockets.
  using Beat = std::function<void(bool overslept)>;

  Heartbeat(EventLoop& loop, std::chrono::milliseconds silence)
      : interval_(std::clamp(silence / 6, std::chrono::milliseconds(50), std::chrono::milliseconds(5000))),
        timer_(loop) {}

  // Calls back once, after the interval.
  void arm(Beat beat) {
    next_ = Clock::now() + interval_;
    timer_.arm(next_, [this, beat = std::move(beat)] { beat(Clock::now() > next_ + interval_); });
  }

 private:
  const std::chrono::milliseconds interval_;
  Deadline next_{};
  Timer timer_;
};

}  // namespace tutti
