#include "perf/common_start.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "perf/machine.h"

namespace tutti::perf {
namespace {

TEST(CommonStart, IsNotBeforeTheMoment) {
  CommonStart start;
  const double moment = start.proposal();
  EXPECT_GE(start.wait_until(moment), moment);
  EXPECT_GE(now_us(), moment);
}

TEST(CommonStart, WhoIsLateHasBegunAtTheMomentAndProposesLaterOnes) {
  CommonStart late, early;
  const double passed = now_us() - 1000;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(late.wait_until(passed), passed);
  // Of two proposals one after the other, the first is further ahead; unless the thread stood still between them.
  bool is_later = false;
  for (int i = 0; i < 1000 && !is_later; ++i) {
    const double first = late.proposal();
    is_later = first > early.proposal();
  }
  EXPECT_TRUE(is_later);
}

TEST(CommonStart, ComesBackAfterADisturbance_C1) {
  CommonStart start;
  const double least = start.ahead_us();
  for (int i = 0; i < 20; ++i) start.wait_until(now_us() - 1000);
  EXPECT_GT(start.ahead_us(), 100 * least);
  // Moments that are far enough ahead for any thread: each counts as a call in time.
  for (int i = 0; i < 2000 && start.ahead_us() > least; ++i) start.wait_until(now_us() + 50);
  EXPECT_EQ(start.ahead_us(), least);
}

TEST(CommonStart, IsForRanksOfOneHostWithAProcessorForEach) {
  const auto processors = static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  std::vector<MemoryShare> ranks(processors, MemoryShare{1, 8000});
  EXPECT_TRUE(have_processors(ranks));
  ranks.push_back({1, 8000});
  EXPECT_FALSE(have_processors(ranks));
  EXPECT_FALSE(have_processors({{1, 8000}, {2, 8000}}));
}

}  // namespace
}  // namespace tutti::perf
