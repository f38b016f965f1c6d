#pragma once

#include <algorithm>
#include <chrono>

namespace tutti::perf {

inline double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Lets the ranks of one host begin a call at the same moment of the clock that they share. A barrier is left by some
// earlier than by others, and a rank that begins late finds its data there already: it would time nothing.
//
//   moment = the latest of all ranks' proposal(); begin = wait_until(moment); the call; end = now_us()
//
// The call took from the latest begin to the latest end. Needs a processor for each rank, as waiting spins. One thread.
class CommonStart {
 public:
  double proposal() const { return now_us() + ahead_us_; }

  // Returns when the moment was noticed. A rank that comes too late gets the moment itself, so that being late counts,
  // and proposes later ones from now on. One that was in time again and again comes back to earlier ones: a disturbance
  // must not slow down what is measured after it.
  double wait_until(double moment_us) {
    double now = now_us();
    if (now > moment_us) {
      ahead_us_ = std::min(2 * ahead_us_, kMostAhead_us);
      in_time_ = 0;
      return moment_us;
    }
    if (++in_time_ == kInTime) {
      ahead_us_ = std::max(ahead_us_ / 2, kLeastAhead_us);
      in_time_ = 0;
    }
    while (now < moment_us) now = now_us();
    return now;
  }
  double ahead_us() const { return ahead_us_; }

 private:
  static constexpr double kLeastAhead_us = 2;
  static constexpr double kMostAhead_us = 1000;
  static constexpr int kInTime = 64;  // calls; at the least that is too short, so many are in time for one that is late

  double ahead_us_ = kLeastAhead_us;
  int in_time_ = 0;  // calls since this rank was late, or came back
};

}  // namespace tutti::perf
