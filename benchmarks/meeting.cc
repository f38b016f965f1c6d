// What it costs to have a communicator: ranks as threads of this process meet, and use it.
//   meeting [RANKS [MEETINGS]]      2 ranks, and 20 meetings for up to 8 ranks, otherwise one
// Prints the time until all ranks are ready, and memory and descriptors a rank: of the first meeting when it is ready;
// for up to 8 ranks also after a small call and after a large one, private buffers apart; then the spread over further
// meetings. Memory is what became resident since: a page of shared memory counts for each rank that maps it.

#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "ranks.h"
#include "tutti/tutti.h"

using tutti::benchmark::open_descriptors;
using tutti::benchmark::run_ranks;
using tutti::benchmark::seconds;

namespace {

constexpr int kFew = 8;
constexpr std::size_t kSmall = 1024;
constexpr std::size_t kLarge = 16 << 20;

long resident_kb() {
  long all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

struct Meeting {
  double ready = 0;  // seconds from before the first thread until the last rank is ready
  double slowest_setup = 0;
  double discovery = 0;
};

// Ranks as threads: each makes its communicator and then calls `use` with it.
template <class Use>
Meeting meet(int ranks, const Use& use) {
  Meeting meeting;
  std::vector<tutti::Statistics> statistics(static_cast<std::size_t>(ranks));
  std::barrier<> all(ranks);
  const double begin = seconds();
  const tutti::UniqueId id = tutti::UniqueId::create();
  run_ranks(ranks, [&](int rank) {
    tutti::Communicator communicator = tutti::Communicator::create(id, rank, ranks);
    statistics[static_cast<std::size_t>(rank)] = communicator.statistics();
    all.arrive_and_wait();
    if (rank == 0) meeting.ready = seconds() - begin;
    use(communicator, all);
    all.arrive_and_wait();
  });
  for (const tutti::Statistics& one : statistics) {
    meeting.slowest_setup = std::max(meeting.slowest_setup, one.setup_seconds);
    meeting.discovery = std::max(meeting.discovery, one.discovery_seconds);
  }
  return meeting;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const int meetings = argc > 2 ? std::atoi(argv[2]) : ranks <= kFew ? 20 : 1;
  if (ranks < 1 || meetings < 1) {
    std::fprintf(stderr, "usage: meeting [RANKS [MEETINGS]], both at least 1\n");
    return EXIT_FAILURE;
  }
  // Written, so that they are resident before anything is measured.
  const std::size_t elements = ranks <= kFew ? kLarge / sizeof(float) : 1;
  std::vector<std::vector<float>> inputs(static_cast<std::size_t>(ranks), std::vector<float>(elements, 1));
  std::vector<std::vector<float>> outputs = inputs;
  const long memory_before = resident_kb();
  const int descriptors_before = open_descriptors();
  const auto report = [&](const char* when) {
    std::printf("%-34s %9.1f KB and %.1f descriptors a rank\n", when,
                static_cast<double>(resident_kb() - memory_before) / ranks,
                static_cast<double>(open_descriptors() - descriptors_before) / ranks);
  };
  const auto use = [&](tutti::Communicator& communicator, std::barrier<>& all) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto reduce_and_report = [&](std::size_t bytes, const char* when) {
      communicator.all_reduce(inputs[rank].data(), outputs[rank].data(), bytes / sizeof(float), tutti::DataType::kF32,
                              tutti::kSum);
      all.arrive_and_wait();
      if (rank == 0) report(when);
      all.arrive_and_wait();
    };
    if (rank == 0) report("ready");
    all.arrive_and_wait();
    if (ranks > kFew) return;
    reduce_and_report(kSmall, "after an all_reduce of 1 KiB");
    reduce_and_report(kLarge, "after an all_reduce of 16 MiB");
  };
  const Meeting first = meet(ranks, use);
  std::printf("%d ranks met in %.2f ms, of which %.2f ms to find out what the machine is, once a process\n", ranks,
              first.ready * 1e3, first.discovery * 1e3);
  if (meetings == 1) return EXIT_SUCCESS;

  std::vector<double> setups;
  for (int i = 1; i < meetings; ++i) {
    setups.push_back(meet(ranks, [](tutti::Communicator&, std::barrier<>&) {}).slowest_setup * 1e3);
  }
  std::sort(setups.begin(), setups.end());
  std::printf("%d more meetings, from the call to ready on the slowest rank: least %.2f, median %.2f, most %.2f ms\n",
              meetings - 1, setups.front(), setups[setups.size() / 2], setups.back());
  return EXIT_SUCCESS;
}
