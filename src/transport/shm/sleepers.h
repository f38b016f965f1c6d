#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/sync.h"
#include "transport/shm/bell.h"
#include "transport/shm/host_group.h"
#include "transport/shm/sleep_words.h"

namespace tutti {

// Which ranks of a host sleep, and how they are woken: by whoever publishes something in shared memory that they may
// wait for. One per communicator and rank; owned by the Session, outlives its calls.
//
// No wake-up is lost. A sleeper says that it sleeps, makes every processor finish its stores, looks once more for what
// it waits for, and only then sleeps. A publisher publishes, and then looks whether somebody sleeps. If
// its look came too early to see the announcement, its store was finished before the sleeper's last look, which finds
// it; a wake-up between that look and the sleep is found by the sleep itself, as the word, or the bell, has changed.
//
// What other processes write here may be anything, if their memory is damaged: at worst threads wake for nothing, or
// are not woken. So nobody sleeps for long without looking.
class Sleepers {
 public:
  // ranks: of the communicator. join_store_barrier() is called, if it has not been before.
  Sleepers(const HostGroup& group, int ranks);
  Sleepers(const Sleepers&) = delete;
  Sleepers& operator=(const Sleepers&) = delete;

  // For publishers, any thread. The word is 0 while nobody of the host sleeps: glance() at it after publishing, and
  // go on when it says so.
  const Word& asleep() const { return count_; }
  // Wakes a rank of this host, if it sleeps.
  void wake(int rank);
  // All but this one.
  void wake_others();

  // Whether it has woken somebody since this was asked last.
  bool has_woken() { return peek(woken_) != 0 && claim(woken_, 1, 0); }

  // Something that other threads of this rank may wait for has changed in this process. Any thread.
  void wake_own() { wake_area(own_); }
  void tell_own() {
    if (glance(count_) != 0) wake_own();
  }
  void tell_others() {
    if (glance(count_) != 0) wake_others();
  }

  // For threads of this rank that sleep. Everything that announces is followed by settle_all_processors(), another
  // look, and the sleep; then by the withdrawal.
  //
  // On the futex, where only memory of this communicator is awaited. Returns the key that the sleep needs.
  std::uint64_t announce_futex();
  bool futex_changed(std::uint64_t key) const { return low_half(peek(own_words_.futex)) != low_half(key); }
  // Until it is woken, at most so long.
  void sleep_on_futex(std::uint64_t key, std::chrono::nanoseconds at_most);
  void withdraw_futex();
  // On descriptors, with a bell. A place for one, and the bell that belongs to it; kNoPlace: there are no more, or some
  // rank cannot ring bells of this one.
  static constexpr int kNoPlace = -1;
  int take_place();
  const Bell* bell_of(int place);  // null: the system does not give one
  // The bell may be that of a place of another communicator.
  void announce_bell(int place, const Bell& bell);
  bool was_rung(int place) const { return peek(own_words_.bells[static_cast<std::size_t>(place)]) == 0; }
  void give_place(int place);
  // settle_all_processors() fails: from now on publishers pay for the order.
  void look_in_turn() { raise(count_, SleepCount::kInTurn); }
  // One thread at a time sleeps on the sockets of transports, on behalf of all.
  bool take_duty() { return claim(on_duty_, 0, 1); }
  void give_duty();

 private:
  static constexpr std::uint32_t kNoArea = ~std::uint32_t{0};

  static std::uint32_t low_half(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
  SleepWords& words(std::uint32_t area) const;
  void wake_area(std::uint32_t area);
  void count_up() { add(count_, 1); }
  void count_down() { add(count_, ~std::uint64_t{0}); }

  const SegmentLayout layout_;
  std::byte* const segment_;
  Word& count_;
  const std::uint32_t own_;
  SleepWords& own_words_;
  std::vector<std::uint32_t> area_of_;  // by rank
  std::vector<std::uint32_t> others_;   // areas
  Word on_duty_{0};
  Word woken_{0};

  SpinLock lock_;               // guards the next
  std::uint32_t on_futex_ = 0;  // threads
  std::array<bool, SleepWords::kBells> taken_{};
  std::array<std::unique_ptr<Bell>, SleepWords::kBells> bells_;  // each of whoever has taken its place
  BellRinger ringer_;
};

}  // namespace tutti
