#pragma once

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "transport/transport.h"

namespace tutti {

// How a thread waits between two looks: it spins, then yields, then sleeps for short times, in which news on a
// transport's socket wakes it. One per wait, on the waiter's stack.
class Waiter {
 public:
  // spin: whether there is a core for every rank of the host; otherwise waiting starts with yielding.
  Waiter(std::span<Transport* const> transports, bool spin)
      : transports_(transports), spins_(spin ? kSpins : 0), spins_left_(spins_) {}

  // What its sleeps end for, besides the sockets of `transports`: a descriptor that becomes readable.
  void also_wake_on(int descriptor) { bell_ = descriptor; }
  // The transports to listen to from now on.
  void listen_to(std::span<Transport* const> transports) { transports_ = transports; }

  // Waits a little, at most 5 ms. Returns true now and then: time for checks that cost more.
  bool pause();
  // Something moved: a new wait begins, and it is quick again.
  void reset();
  // Since the last spin of this wait.
  Clock::duration waited() const;

 private:
  static constexpr std::uint32_t kSpins = 4000;  // some tens of microseconds

  std::span<Transport* const> transports_;
  int bell_ = -1;
  std::uint32_t spins_;
  std::uint32_t spins_left_;
  std::uint32_t yields_ = 0;
  Clock::time_point first_yield_{};
};

}  // namespace tutti
