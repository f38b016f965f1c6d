#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tutti::perf::bare {

// A word that one thread stores and others wait for, away from everything else. Neighbouring lines are fetched in
// pairs.
struct alignas(128) Line {
  std::atomic<std::uint64_t> value{0};

  void publish(std::uint64_t number) { value.store(number, std::memory_order_release); }
  // Partner of publish(): what was stored before it is seen after this returns.
  void wait_for(std::uint64_t number) const {
    while (value.load(std::memory_order_acquire) < number) {
    }
  }
};

struct Times {
  double p05_us;
  double p50_us;
};

// Puts the calling thread on the index-th processor that the process may use. Returns false when there is none.
bool run_on_processor(int index);

// Two threads on two processors that spin for each other: what a call between two ranks can at best be made of. Both
// threads call everything but run(). Nothing allocates between start and end of what is timed.
class Pair {
 public:
  // Runs body(0) and body(1) on a thread each and returns when both have ended. Ends the program when the process may
  // use one processor only: threads that spin for each other would wait for ever.
  static void run(const std::function<void(int rank)>& body);

  void barrier(int rank) {
    const std::uint64_t turn = ++turns_[rank].count;
    lines_[rank].publish(turn);
    lines_[1 - rank].wait_for(turn);
  }

  // Runs `iterations` times, after a fifth as many that do not count: prepare(), a barrier, timed(). The slower
  // thread's time counts.
  template <typename Prepare, typename Timed>
  Times time(int rank, int iterations, Prepare&& prepare, Timed&& timed) {
    times_[rank].assign(static_cast<std::size_t>(iterations), 0.0);
    for (int i = -iterations / 5 - 2; i < iterations; ++i) {
      prepare();
      barrier(rank);
      const auto start = std::chrono::steady_clock::now();
      timed();
      const double time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
      if (i >= 0) times_[rank][static_cast<std::size_t>(i)] = time;
    }
    barrier(rank);
    return summary(rank);
  }

 private:
  struct alignas(128) Count {
    std::uint64_t count = 0;
  };

  Times summary(int rank);

  Line lines_[2];
  Count turns_[2];
  std::vector<double> times_[2];
};

// How often something that moves so many bytes is measured.
int iterations(std::size_t bytes);

}  // namespace tutti::perf::bare
