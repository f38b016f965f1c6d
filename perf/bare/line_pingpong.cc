// How long a cache line takes from one core to another, in nanoseconds: the regime that a measurement was taken in.
// Virtual cores may float between dies, so perf/compare runs this before and after everything it measures.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "perf/bare/pair.h"

namespace {

using tutti::perf::bare::Line;
using tutti::perf::bare::Pair;

constexpr std::uint64_t kBatches = 200;
constexpr std::uint64_t kPerBatch = 1000;

void echo(const Line& there, Line& back) {
  for (std::uint64_t i = 1; i <= kBatches * kPerBatch; ++i) {
    there.wait_for(i);
    back.publish(i);
  }
}

double fastest_batch_ns(Line& there, const Line& back) {
  double best = std::numeric_limits<double>::max();
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = batch * kPerBatch + 1; i <= (batch + 1) * kPerBatch; ++i) {
      there.publish(i);
      back.wait_for(i);
    }
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main() {
  Line there;
  Line back;
  Pair::run([&](int rank) {
    if (rank == 1) return echo(there, back);
    std::printf("%.0f\n", fastest_batch_ns(there, back) / static_cast<double>(kPerBatch) / 2);
  });
}
