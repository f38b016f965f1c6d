#include "base/sync.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti {
namespace {

// "S": it sleeps.
char state_of(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
}

// So a thread of real time does not keep the holder from the only processor.
TEST(SpinLock, IsWaitedForAsleepWhereItsHolderTakesLong_D10) {
  SpinLock lock;
  std::atomic<int> waiter{0};
  lock.lock();
  std::thread other([&] {
    waiter = ::gettid();
    const std::lock_guard guard(lock);
  });
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool asleep = false;
  while (!asleep && std::chrono::steady_clock::now() < give_up) {
    if (waiter != 0) asleep = state_of(waiter) == 'S';
    std::this_thread::yield();
  }
  lock.unlock();
  other.join();
  EXPECT_TRUE(asleep);
}

TEST(SpinLock, LetsOneInAtATime) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 20'000;
  SpinLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) {
        const std::lock_guard guard(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kTimes);
}

}  // namespace
}  // namespace tutti
