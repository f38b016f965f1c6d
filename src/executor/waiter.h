#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "transport/shm/sleepers.h"
#include "transport/transport.h"

namespace tutti {

// How a thread waits between two looks: it spins, then yields, then sleeps until something is published for its rank,
// or for one of several. On a futex where only the memory of one communicator is awaited, else on descriptors: those of
// transports, and a bell that ranks of the host ring. One per wait, on the waiter's stack.
//
// A sleep lasts a tenth of what was waited already, 100 ms at most: the checks that take time want to be made, and
// whoever should wake this thread may have died or be damaged. Without a place to sleep that others know (sleepers)
// it is 5 ms at most.
class Waiter {
 public:
  // spin: whether there is a core for every rank of the host; otherwise waiting starts with yielding.
  explicit Waiter(bool spin) : may_spin_(spin), spins_(spin) {}
  Waiter(std::span<Sleepers* const> sleepers, std::span<Transport* const> transports, bool spin) : Waiter(spin) {
    listen_to(sleepers, transports);
  }
  ~Waiter() { reset(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Whose publications, and which transports, are awaited from now on: those of the ranks, or communicators, that this
  // thread carries calls on for. The lists are the caller's and stay; what they name stays until reset().
  void listen_to(std::span<Sleepers* const> sleepers, std::span<Transport* const> transports) {
    sleepers_ = sleepers;
    transports_ = transports;
  }
  // There is something to do then.
  void wake_by(Clock::time_point time) { wake_by_ = time; }

  // Instead of 100 ms: for tests, in which a wake-up that is lost shall not go unnoticed.
  void sleep_so_long(std::chrono::nanoseconds length) { shortest_ = longest_ = length; }

  // Waits a little. Returns true now and then: time for checks that cost more than a look at memory. Whatever is
  // awaited must be looked at between two calls.
  bool pause();
  // False: the next pause() does not sleep.
  bool may_sleep() const { return looks_ >= kLeastLooks; }
  // Something moved: a new wait begins, and it is quick again. Others of this rank may sleep on the transports now.
  void reset();

 private:
  // Between spinning and sleeping: as many as it takes until a rank has told the credit that it owes. Where somebody
  // else has the core, one yield may take longer than all looks together.
  static constexpr std::uint32_t kLeastLooks = 32;
  static constexpr std::size_t kMostSleepers = 8;
  static constexpr std::size_t kMostTransports = 8;

  enum class Place { kNone, kFutex, kBell };

  void sleep(std::chrono::nanoseconds waited);
  bool can_be_woken() const;
  bool announced_here() const;
  bool announce();
  bool announce_bells();
  bool was_woken() const;
  void withdraw();
  void wait_on_descriptors(std::chrono::nanoseconds at_most) const;

  std::span<Sleepers* const> sleepers_;
  std::span<Transport* const> transports_;
  std::chrono::nanoseconds shortest_ = std::chrono::milliseconds(1);
  std::chrono::nanoseconds longest_ = std::chrono::milliseconds(100);
  Clock::time_point wake_by_ = Clock::time_point::max();
  const bool may_spin_;
  bool spins_;
  std::uint32_t spun_ = 0;
  Clock::time_point first_spin_{};
  std::uint32_t looks_ = 0;
  Clock::time_point first_yield_{};

  // Where this thread has announced that it sleeps.
  Place place_ = Place::kNone;
  std::array<Sleepers*, kMostSleepers> announced_;
  std::array<int, kMostSleepers> bell_places_;
  std::size_t announcements_ = 0;
  const Bell* bell_ = nullptr;
  std::uint64_t futex_key_ = 0;
  Sleepers* duty_ = nullptr;  // for whom it sleeps on the transports
};

}  // namespace tutti
