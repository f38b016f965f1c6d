#include "executor/waiter.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include <algorithm>

#include "base/store_barrier.h"
#include "base/sync.h"

namespace tutti {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A yield costs a microsecond and lets the others run; being woken costs five to fifty. With many more ranks than
// cores every yield goes round all of them: then sleeping is what lets somebody get on.
constexpr microseconds kSpinFor{20};
constexpr std::uint32_t kSpinsPerCheck = 64;
constexpr microseconds kYieldFor{200};
constexpr std::uint32_t kLooksPerCheck = 64;
constexpr int kShareOfWait = 10;
constexpr nanoseconds kShortestNap = microseconds(20);
constexpr nanoseconds kLongestNap = milliseconds(5);

}  // namespace

bool Waiter::pause() {
  // Whoever this rank has just woken may have been put on this core, whatever others are idle.
  if (!sleepers_.empty() && sleepers_.front()->has_woken()) ::sched_yield();
  if (spins_ && ++spun_ % kSpinsPerCheck != 0) {
    relax_cpu();
    return false;
  }
  const auto now = Clock::now();
  if (spins_) {
    if (spun_ == kSpinsPerCheck) first_spin_ = now;
    spins_ = now - first_spin_ < kSpinFor;
    return false;
  }
  if (first_yield_ == Clock::time_point{}) first_yield_ = now;
  if (const bool yields = now - first_yield_ < kYieldFor; yields || looks_ < kLeastLooks) {
    if (yields) ::sched_yield();
    return ++looks_ % kLooksPerCheck == 0;
  }
  if (place_ != Place::kNone && (!announced_here() || was_woken())) {
    withdraw();
    return true;
  }
  if (place_ == Place::kNone && can_be_woken() && announce()) return false;  // and look again
  // Whoever slept on the transports may have left since.
  if (place_ == Place::kFutex && !transports_.empty() && duty_ == nullptr && announced_[0]->take_duty()) {
    duty_ = announced_[0];
    withdraw();
    return false;
  }
  sleep(now - first_yield_);
  return true;
}

void Waiter::sleep(nanoseconds waited) {
  const nanoseconds left =
      wake_by_ == Clock::time_point::max() ? longest_ : std::max<nanoseconds>(wake_by_ - Clock::now(), kShortestNap);
  const nanoseconds share = waited / kShareOfWait;
  if (place_ == Place::kNone) {
    return wait_on_descriptors(std::min(std::clamp(share, kShortestNap, kLongestNap), left));
  }
  const nanoseconds at_most = std::min(std::clamp(share, shortest_, longest_), left);
  if (place_ == Place::kFutex) {
    announced_[0]->sleep_on_futex(futex_key_, at_most);
  } else {
    wait_on_descriptors(at_most);
  }
  if (was_woken()) withdraw();
}

void Waiter::wait_on_descriptors(nanoseconds at_most) const {
  const timespec limit{at_most.count() / 1'000'000'000, at_most.count() % 1'000'000'000};
  std::array<pollfd, kMostTransports + 1> waits;
  nfds_t count = 0;
  if (place_ == Place::kBell) waits[count++] = {bell_->descriptor(), POLLIN, 0};
  for (const Transport* transport : transports_) {
    if (transport->descriptor() >= 0 && count < waits.size()) waits[count++] = {transport->descriptor(), POLLIN, 0};
  }
  if (count > 0) {
    ::ppoll(waits.data(), count, &limit, nullptr);
  } else {
    ::nanosleep(&limit, nullptr);
  }
}

// A transport that cannot be listened to is looked at often instead.
bool Waiter::can_be_woken() const {
  return !sleepers_.empty() && sleepers_.size() <= kMostSleepers && transports_.size() <= kMostTransports &&
         std::ranges::all_of(transports_, [](const Transport* transport) { return transport->descriptor() >= 0; });
}

bool Waiter::announced_here() const {
  return std::ranges::equal(sleepers_, std::span(announced_).first(announcements_));
}

bool Waiter::announce() {
  if (sleepers_.size() == 1) {
    Sleepers& sleepers = *sleepers_.front();
    if (duty_ == nullptr && !transports_.empty() && sleepers.take_duty()) duty_ = &sleepers;
    if (duty_ == nullptr) {
      futex_key_ = sleepers.announce_futex();
      announced_[0] = &sleepers;
      announcements_ = 1;
      place_ = Place::kFutex;
    }
  }
  if (place_ == Place::kNone && !announce_bells()) {
    withdraw();
    return false;
  }
  if (!settle_all_processors()) {
    for (Sleepers* sleepers : sleepers_) sleepers->look_in_turn();
  }
  return true;
}

bool Waiter::announce_bells() {
  place_ = Place::kBell;
  announcements_ = 0;
  bell_ = nullptr;
  for (Sleepers* sleepers : sleepers_) {
    const int place = sleepers->take_place();
    if (place == Sleepers::kNoPlace) return false;
    announced_[announcements_] = sleepers;
    bell_places_[announcements_++] = place;
    if (bell_ == nullptr) bell_ = sleepers->bell_of(place);
    if (bell_ == nullptr) return false;
  }
  bell_->silence();
  for (std::size_t i = 0; i < announcements_; ++i) announced_[i]->announce_bell(bell_places_[i], *bell_);
  return true;
}

bool Waiter::was_woken() const {
  if (place_ == Place::kFutex) return announced_[0]->futex_changed(futex_key_);
  for (std::size_t i = 0; i < announcements_; ++i) {
    if (announced_[i]->was_rung(bell_places_[i])) return true;
  }
  return false;
}

void Waiter::withdraw() {
  if (place_ == Place::kFutex) {
    announced_[0]->withdraw_futex();
  } else {
    for (std::size_t i = 0; i < announcements_; ++i) announced_[i]->give_place(bell_places_[i]);
  }
  place_ = Place::kNone;
  announcements_ = 0;
}

void Waiter::reset() {
  spins_ = may_spin_;
  spun_ = 0;
  looks_ = 0;
  first_yield_ = {};
  if (place_ != Place::kNone) withdraw();
  if (duty_ == nullptr) return;
  duty_->give_duty();
  duty_ = nullptr;
}

}  // namespace tutti
