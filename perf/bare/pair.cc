#include "perf/bare/pair.h"

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "perf/peers/iterations.h"

namespace tutti::perf::bare {

bool run_on_processor(int index) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof(allowed), &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return ::sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  return false;
}

void Pair::run(const std::function<void(int rank)>& body) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof(allowed), &allowed);
  if (CPU_COUNT(&allowed) < 2) {
    std::fprintf(stderr,
                 "two threads that spin for each other need two processors, this process may use one: see taskset\n");
    std::exit(1);
  }
  std::thread other([&] {
    run_on_processor(1);
    body(1);
  });
  std::thread one([&] {
    run_on_processor(0);
    body(0);
  });
  one.join();
  other.join();
}

Times Pair::summary(int rank) {
  std::vector<double> times(begins_[0].size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i] = std::max(ends_[0][i], ends_[1][i]) - std::max(begins_[0][i], begins_[1][i]);
  }
  barrier(rank);  // both have read
  std::sort(times.begin(), times.end());
  return {times[times.size() / 20], times[times.size() / 2]};
}

int iterations(std::size_t bytes) { return peers::iterations(bytes); }

}  // namespace tutti::perf::bare
