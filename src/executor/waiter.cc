#include "executor/waiter.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>

#include "base/sync.h"

namespace tutti {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A yield costs a microsecond and lets the others run; a sleep costs fifty to wake up from. With many more ranks than
// cores every yield goes round all of them: then sleeping is what lets somebody get on.
constexpr microseconds kYieldFor{200};
constexpr nanoseconds kFirstSleep = microseconds(20);
constexpr nanoseconds kLongestSleep = milliseconds(5);
constexpr int kShareOfWait = 10;  // a sleep adds at most a tenth to what was waited already
constexpr std::uint32_t kYieldsPerCheck = 64;

}  // namespace

bool Waiter::pause() {
  if (spins_left_ > 0) {
    --spins_left_;
    relax_cpu();
    return false;
  }
  const auto now = Clock::now();
  if (first_yield_ == Clock::time_point{}) first_yield_ = now;
  if (now - first_yield_ < kYieldFor) {
    ::sched_yield();
    return ++yields_ % kYieldsPerCheck == 0;
  }
  const nanoseconds length = std::clamp<nanoseconds>((now - first_yield_) / kShareOfWait, kFirstSleep, kLongestSleep);
  const timespec sleep{0, static_cast<long>(length.count())};
  std::array<pollfd, 8> waits;
  nfds_t count = 0;
  if (bell_ >= 0) waits[count++] = {bell_, POLLIN, 0};
  for (const Transport* transport : transports_) {
    if (transport->descriptor() >= 0 && count < waits.size()) waits[count++] = {transport->descriptor(), POLLIN, 0};
  }
  if (count > 0) {
    ::ppoll(waits.data(), count, &sleep, nullptr);
  } else {
    ::nanosleep(&sleep, nullptr);
  }
  return true;
}

void Waiter::reset() {
  spins_left_ = spins_;
  first_yield_ = {};
}

Clock::duration Waiter::waited() const {
  return first_yield_ == Clock::time_point{} ? Clock::duration::zero() : Clock::now() - first_yield_;
}

}  // namespace tutti
