// How long a cache line takes from one core to another, in nanoseconds: the regime that a measurement was taken in.
// Virtual cores may float between dies, so perf/compare runs this before and after everything it measures.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <thread>

namespace {

constexpr int kBatches = 200;
constexpr int kPerBatch = 1000;

struct alignas(128) Line {
  std::atomic<int> value{0};
};

void run_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace

int main() {
  Line there;
  Line back;
  std::thread echo([&] {
    run_on(1);
    for (int i = 1; i <= kBatches * kPerBatch; ++i) {
      while (there.value.load(std::memory_order_acquire) != i) {
      }
      back.value.store(i, std::memory_order_release);
    }
  });
  run_on(0);
  double best = std::numeric_limits<double>::max();
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 1; i <= kPerBatch; ++i) {
      const int message = batch * kPerBatch + i;
      there.value.store(message, std::memory_order_release);
      while (back.value.load(std::memory_order_acquire) != message) {
      }
    }
    const double time = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, time / kPerBatch / 2);
  }
  echo.join();
  std::printf("%.0f\n", best);
}
