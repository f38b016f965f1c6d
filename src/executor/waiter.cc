#include "executor/waiter.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include <array>

#include "base/sync.h"

namespace tutti {
namespace {

constexpr std::uint32_t kYieldsPerCheck = 64;
constexpr int kLongestSleepMs = 1;
constexpr timespec kShortSleep{0, 50'000};

}  // namespace

bool Waiter::pause() {
  ++rounds_;
  if (rounds_ < kSpins) {
    relax_cpu();
    return false;
  }
  if (started_ == Clock::time_point{}) started_ = Clock::now();
  if (rounds_ < kSpins + kYields) {
    ::sched_yield();
    return rounds_ % kYieldsPerCheck == 0;
  }
  std::array<pollfd, 4> waits;
  nfds_t count = 0;
  for (const Transport* transport : transports_) {
    if (transport->descriptor() >= 0 && count < waits.size()) waits[count++] = {transport->descriptor(), POLLIN, 0};
  }
  if (count > 0) {
    ::poll(waits.data(), count, kLongestSleepMs);
  } else {
    ::nanosleep(&kShortSleep, nullptr);
  }
  return true;
}

}  // namespace tutti
