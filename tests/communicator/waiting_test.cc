// What a rank does to the machine while it waits.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <thread>

#include "support/ranks.h"
#include "support/together.h"

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

// Time that a virtual machine lost to others is counted as its processes', and a rank may be kept waiting by more than
// the test: of several windows one must be good, on all ranks at once.
constexpr int kMostWindows = 10;

// The sleeps become longer, a tenth of what was waited: about 60 in a second. Naps of 5 ms would be 240.
TEST_P(Waiting, SleepsSeldomAndLong) {
  static constexpr milliseconds kLate{1000};
  static constexpr long kMostSleeps = 150;
  Together together(3);
  expect_ranks(
      3,
      [&](Communicator& communicator) {
        long sleeps = 0;
        milliseconds used{0};
        const auto good = [&] { return sleeps < kMostSleeps && used < kLate / 4; };
        int windows = 0;
        do {
          together.wait();
          if (communicator.rank() == 1) std::this_thread::sleep_for(kLate);
          const long sleeps_before = sleeps_of_thread();
          const auto used_before = processor_time(CLOCK_THREAD_CPUTIME_ID);
          communicator.barrier();
          sleeps = sleeps_of_thread() - sleeps_before;
          used = processor_time(CLOCK_THREAD_CPUTIME_ID) - used_before;
        } while (!together.agree(good()) && ++windows < kMostWindows);
        EXPECT_TRUE(good()) << "rank " << communicator.rank() << ": " << sleeps << " sleeps, " << used.count() << " ms";
      },
      GetParam().setup);
}

TEST_P(Waiting, IsNothingThatAnIdleCommunicatorDoes) {
  Together together(3);
  expect_ranks(
      3,
      [&](Communicator& communicator) {
        communicator.barrier();
        milliseconds used{0};
        const auto good = [&] { return used < milliseconds(60); };
        int windows = 0;
        do {
          together.wait();
          const auto before = processor_time(CLOCK_PROCESS_CPUTIME_ID);
          std::this_thread::sleep_for(milliseconds(300));
          used = processor_time(CLOCK_PROCESS_CPUTIME_ID) - before;
        } while (!together.agree(good()) && ++windows < kMostWindows);
        EXPECT_TRUE(good()) << used.count() << " ms";
        communicator.barrier();
      },
      GetParam().setup);
}

}  // namespace
}  // namespace tutti
