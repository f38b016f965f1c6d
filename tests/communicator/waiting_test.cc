// What a rank does to the machine while it waits.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <thread>

#include "support/ranks.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

long sleeps_of_thread() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

milliseconds processor_time(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return milliseconds(time.tv_sec * 1000 + time.tv_nsec / 1'000'000);
}

struct Case {
  const char* name;
  RankSetup setup;
};

class Waiting : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Hosts, Waiting,
                         testing::Values(Case{"SharedMemory", {}}, Case{"Tcp", over_tcp()},
                                         Case{"Both", on_hosts({0, 0, 1})}),
                         [](const auto& info) { return info.param.name; });

// The sleeps become longer, a tenth of what was waited: about 60 in a second. Naps of 5 ms would be 240.
TEST_P(Waiting, SleepsSeldomAndLong) {
  static constexpr milliseconds kLate{1000};
  static constexpr long kMostSleeps = 150;
  expect_ranks(
      3,
      [](Communicator& communicator) {
        communicator.barrier();
        if (communicator.rank() == 1) std::this_thread::sleep_for(kLate);
        const long before = sleeps_of_thread();
        const auto used = processor_time(CLOCK_THREAD_CPUTIME_ID);
        communicator.barrier();
        EXPECT_LT(sleeps_of_thread() - before, kMostSleeps) << "rank " << communicator.rank();
        EXPECT_LT(processor_time(CLOCK_THREAD_CPUTIME_ID) - used, kLate / 4) << "rank " << communicator.rank();
      },
      GetParam().setup);
}

TEST_P(Waiting, IsNothingThatAnIdleCommunicatorDoes) {
  expect_ranks(
      3,
      [](Communicator& communicator) {
        communicator.barrier();
        std::this_thread::sleep_for(milliseconds(50));  // until all are out of it
        const auto used = processor_time(CLOCK_PROCESS_CPUTIME_ID);
        std::this_thread::sleep_for(milliseconds(300));
        EXPECT_LT(processor_time(CLOCK_PROCESS_CPUTIME_ID) - used, milliseconds(60));
        std::this_thread::sleep_for(milliseconds(50));
        communicator.barrier();
      },
      GetParam().setup);
}

}  // namespace
}  // namespace tutti
