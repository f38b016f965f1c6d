#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti::perf {

inline constexpr int kExitTimeout = 4;

// Ends the process with kExitTimeout and one line on stderr when a rank of this process stays in one call for longer
// than the limit. One thread, which sleeps most of the time; none without a limit.
class Watchdog {
 public:
  // What one rank is doing. Its own thread writes.
  class Slot {
   public:
    // Says what the calls that follow are; may allocate.
    void describe(int rank, std::string what);
    // Before every call: a store, no clock.
    void beat() { beats_.store(beats_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

   private:
    friend class Watchdog;
    friend class Watched;
    std::atomic<std::uint64_t> beats_{0};
    std::atomic<bool> inside_{false};
    std::mutex mutex_;
    int rank_ = 0;
    std::string what_;
  };

  // limit_s 0: never.
  Watchdog(int limit_s, int slots);
  ~Watchdog();

  Slot& slot(int index) { return *slots_[static_cast<std::size_t>(index)]; }

 private:
  void watch();

  int limit_s_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

// While it lives, the rank is in calls; one may live inside another.
class Watched {
 public:
  explicit Watched(Watchdog::Slot& slot) : slot_(slot), outer_(slot.inside_.load(std::memory_order_relaxed)) {
    slot_.beat();
    slot_.inside_.store(true, std::memory_order_relaxed);
  }
  ~Watched() {
    slot_.beat();
    slot_.inside_.store(outer_, std::memory_order_relaxed);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  Watchdog::Slot& slot_;
  bool outer_;
};

}  // namespace tutti::perf
