#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
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
  void silence() {
    std::uint64_t rung = 0;
    [[maybe_unused]] const auto read = ::read(event_.get(), &rung, sizeof(rung));
  }

 private:
  UniqueFd event_;
};

}  // namespace tutti
