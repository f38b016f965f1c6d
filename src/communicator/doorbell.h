#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

#include "base/handles.h"
#include "base/system_error.h"

namespace tutti {

// Wakes a thread that sleeps on a descriptor. Any thread rings, one sleeps.
class Doorbell {
 public:
  // Throws Error(kSystem).
  Doorbell() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!event_) throw system_error("cannot make the event that wakes a stream's thread", errno);
  }

  int descriptor() const { return event_.get(); }
  void ring() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof(one));
  }
  // Until it has rung.
  void sleep() {
    pollfd wait{event_.get(), POLLIN, 0};
    ::poll(&wait, 1, -1);
  }
  // The same for at most so long.
  void sleep(std::chrono::nanoseconds at_most) {
    pollfd wait{event_.get(), POLLIN, 0};
    const timespec limit{at_most.count() / 1'000'000'000, at_most.count() % 1'000'000'000};
    ::ppoll(&wait, 1, &limit, nullptr);
  }
  void silence() {
    std::uint64_t rung = 0;
    [[maybe_unused]] const auto read = ::read(event_.get(), &rung, sizeof(rung));
  }

 private:
  UniqueFd event_;
};

}  // namespace tutti
