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
  Waiter(std::span<Transport* const> transports, bool spin) : transports_(transports), spins_left_(spin ? kSpins : 0) {}

  // Waits a little. Returns true now and then, about every millisecond at most: time for checks that cost more.
  bool pause();
  // Something moved: be quick again.
  void reset();
  // Since the last spin.
  Clock::duration waited() const;

 private:
  static constexpr std::uint32_t kSpins = 4000;  // some tens of microseconds

  std::span<Transport* const> transports_;
  std::uint32_t spins_left_;
  std::uint32_t yields_ = 0;
  Clock::time_point first_yield_{};  // of the whole wait
  Clock::time_point last_reset_{};
};

}  // namespace tutti
