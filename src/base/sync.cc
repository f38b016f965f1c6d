#include "base/sync.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tutti {
namespace {

constexpr int kSpins = 256;  // some microseconds: longer than its holder takes
constexpr int kYields = 16;
constexpr std::chrono::microseconds kShortestSleep{20};
constexpr std::chrono::microseconds kLongestSleep{1000};

}  // namespace

void SpinLock::wait_and_lock() {
  std::chrono::microseconds sleep = kShortestSleep;
  for (int looks = 0;; ++looks) {
    if (peek(word_) == 0 && try_lock()) return;
    if (looks < kSpins) {
      relax_cpu();
    } else if (looks < kSpins + kYields) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(sleep);
      sleep = std::min(2 * sleep, kLongestSleep);
    }
  }
}

}  // namespace tutti
