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
  Waiter(std::span<Transport* const> transports, bool spin) : transports_(transports), rounds_(spin ? 0 : kSpins) {}

  // Waits a little. Returns true now and then (about every millisecond once it sleeps): time for checks that cost more.
  bool pause();
  // Something moved: spin again.
  void reset() { rounds_ = rounds_ < kSpins ? 0 : kSpins; }
  // Since the first pause that read the clock.
  Clock::duration waited() const {
    return started_ == Clock::time_point{} ? Clock::duration::zero() : Clock::now() - started_;
  }

 private:
  static constexpr std::uint32_t kSpins = 4000;  // some tens of microseconds
  static constexpr std::uint32_t kYields = 2000;

  std::span<Transport* const> transports_;
  std::uint32_t rounds_;
  Clock::time_point started_{};
};

}  // namespace tutti
