#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "perf/common_start.h"

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

  // Runs `iterations` times, after a fifth as many that do not count: prepare(), then both begin timed() at the same
  // moment. It took until the later one had ended.
  template <typename Prepare, typename Timed>
  Times time(int rank, int iterations, Prepare&& prepare, Timed&& timed) {
    begins_[rank].assign(static_cast<std::size_t>(iterations), 0.0);
    ends_[rank].assign(static_cast<std::size_t>(iterations), 0.0);
    CommonStart start;
    for (int i = -iterations / 5 - 2; i < iterations; ++i) {
      prepare();
      barrier(rank);
      proposals_[rank].value.store(start.proposal(), std::memory_order_relaxed);
      barrier(rank);
      const double begin = start.wait_until(std::max(proposals_[0].value.load(std::memory_order_relaxed),
                                                     proposals_[1].value.load(std::memory_order_relaxed)));
      timed();
      const double end = now_us();
      if (i < 0) continue;
      begins_[rank][static_cast<std::size_t>(i)] = begin;
      ends_[rank][static_cast<std::size_t>(i)] = end;
    }
    barrier(rank);
    return summary(rank);
  }

 private:
  struct alignas(128) Count {
    std::uint64_t count = 0;
  };
  // Ordered by the barriers around it.
  struct alignas(128) Proposal {
    std::atomic<double> value{0};
  };

  Times summary(int rank);

  Line lines_[2];
  Count turns_[2];
  Proposal proposals_[2];
  std::vector<double> begins_[2];
  std::vector<double> ends_[2];
};

// How often something that moves so many bytes is measured.
int iterations(std::size_t bytes);

}  // namespace tutti::perf::bare
