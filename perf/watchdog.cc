#include "perf/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "perf/machine.h"

namespace tutti::perf {

using Clock = std::chrono::steady_clock;

void Watchdog::Slot::describe(int rank, std::string what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  rank_ = rank;
  what_ = std::move(what);
}

Watchdog::Watchdog(int limit_s, int slots) : limit_s_(limit_s) {
  for (int i = 0; i < slots; ++i) slots_.push_back(std::make_unique<Slot>());
  if (limit_s_ > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch() {
  struct Seen {
    std::uint64_t beats = 0;
    Clock::time_point since = Clock::now();
  };
  std::vector<Seen> seen(slots_.size());
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(100), [this] { return stop_; })) {
    const Clock::time_point now = Clock::now();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = *slots_[i];
      const std::uint64_t beats = slot.beats_.load(std::memory_order_relaxed);
      if (beats != seen[i].beats || !slot.inside_.load(std::memory_order_relaxed)) seen[i] = {beats, now};
      if (now - seen[i].since < std::chrono::seconds(limit_s_)) continue;
      const std::lock_guard<std::mutex> words(slot.mutex_);
      std::fflush(stdout);
      fmt::print(stderr, "\n# timeout: rank {} (host {}, pid {}) has been in {} for more than {} s\n", slot.rank_,
                 host_name(), ::getpid(), slot.what_, limit_s_);
      std::fflush(stderr);
      std::_Exit(kExitTimeout);
    }
  }
}

}  // namespace tutti::perf
