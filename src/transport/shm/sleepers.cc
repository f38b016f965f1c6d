#include "transport/shm/sleepers.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/store_barrier.h"
#include "transport/messages.h"

namespace tutti {
namespace {

// Shared between processes: the key of such a futex is the page of the segment.
std::uint32_t* futex_of(Word& word) { return reinterpret_cast<std::uint32_t*>(&word); }

void wake_futex(Word& word) { ::syscall(SYS_futex, futex_of(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

// Takes back that threads sleep on this word. False: somebody else has, or nobody sleeps.
bool end_sleep(Word& futex, std::uint64_t seen) {
  while ((seen & 1) != 0) {
    if (claim(futex, seen, seen + 1)) return true;
    seen = peek(futex);
  }
  return false;
}

bool end_sleep(Word& bell) {
  const std::uint64_t name = peek(bell);
  return name != 0 && claim(bell, name, 0);
}

}  // namespace

Sleepers::Sleepers(const HostGroup& group, int ranks)
    : layout_(group.layout),
      segment_(group.segment.data()),
      count_(reinterpret_cast<SleepCount*>(segment_ + SegmentLayout::sleep_count())->asleep),
      own_(group.own_area),
      own_words_(words(own_)),
      area_of_(static_cast<std::size_t>(ranks), kNoArea) {
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    area_of_[static_cast<std::size_t>(group.members[i])] = group.areas[i];
    if (group.areas[i] != own_) others_.push_back(group.areas[i]);
  }
  if (!join_store_barrier()) look_in_turn();
}

SleepWords& Sleepers::words(std::uint32_t area) const {
  return *reinterpret_cast<SleepWords*>(segment_ + layout_.area(area) + layout_.sleep_words());
}

void wake_peer(const Endpoint& endpoint) { endpoint.sleepers->wake(endpoint.peer); }

void Sleepers::wake(int rank) {
  if (const std::uint32_t area = area_of_[static_cast<std::size_t>(rank)]; area != kNoArea) wake_area(area);
}

void Sleepers::wake_others() {
  for (const std::uint32_t area : others_) wake_area(area);
}

void Sleepers::wake_area(std::uint32_t area) {
  SleepWords& sleeping = words(area);
  const bool in_turn = (peek(count_) & SleepCount::kInTurn) != 0;
  // With the announcements, which raise() the same word: in turn, it stands for the bells, too.
  const std::uint64_t seen = in_turn ? glance_in_turn(sleeping.futex) : peek(sleeping.futex);
  if (end_sleep(sleeping.futex, seen)) {
    count_down();
    wake_futex(sleeping.futex);
    note(woken_, 1);
  }
  for (Word& bell : sleeping.bells) {
    const std::uint64_t name = peek(bell);
    if (name == 0 || !claim(bell, name, 0)) continue;
    count_down();
    if (!ringer_.ring(name)) note(sleeping.out_of_earshot, 1);
    note(woken_, 1);
  }
}

std::uint64_t Sleepers::announce_futex() {
  const std::lock_guard lock(lock_);
  ++on_futex_;
  const std::uint64_t before = raise(own_words_.futex, 1);  // with wake_area() of whoever publishes
  if ((before & 1) == 0) count_up();
  return before | 1;
}

void Sleepers::sleep_on_futex(std::uint64_t key, std::chrono::nanoseconds at_most) {
  const timespec limit{static_cast<time_t>(at_most.count() / 1'000'000'000),
                       static_cast<long>(at_most.count() % 1'000'000'000)};
  ::syscall(SYS_futex, futex_of(own_words_.futex), FUTEX_WAIT, low_half(key), &limit, nullptr, 0);
}

void Sleepers::withdraw_futex() {
  const std::lock_guard lock(lock_);
  if (--on_futex_ == 0 && end_sleep(own_words_.futex, peek(own_words_.futex))) count_down();
}

int Sleepers::take_place() {
  if (peek(own_words_.out_of_earshot) != 0) return kNoPlace;
  const std::lock_guard lock(lock_);
  const auto place = std::ranges::find(taken_, false);
  if (place == taken_.end()) return kNoPlace;
  *place = true;
  return static_cast<int>(place - taken_.begin());
}

const Bell* Sleepers::bell_of(int place) {
  std::unique_ptr<Bell>& bell = bells_[static_cast<std::size_t>(place)];
  if (bell == nullptr) bell = std::make_unique<Bell>();
  return *bell ? bell.get() : nullptr;
}

void Sleepers::announce_bell(int place, const Bell& bell) {
  Word& word = own_words_.bells[static_cast<std::size_t>(place)];
  if (peek(word) != 0) return;
  count_up();
  note(word, bell.name());
  raise(own_words_.futex, 0);  // with wake_area(), where words are looked at in turn
}

void Sleepers::give_place(int place) {
  if (end_sleep(own_words_.bells[static_cast<std::size_t>(place)])) count_down();
  const std::lock_guard lock(lock_);
  taken_[static_cast<std::size_t>(place)] = false;
}

void Sleepers::give_duty() {
  publish(on_duty_, 0);  // taken by take_duty() of a thread that has announced itself meanwhile, or is woken now
  tell_own();
}

}  // namespace tutti
