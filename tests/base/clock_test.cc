#include "base/clock.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using std::chrono::milliseconds;

TEST(Clock, FindsADeadlineForEveryLimit) {
  const Clock::time_point now = Clock::now();
  EXPECT_EQ(deadline_after(milliseconds(0), now), now);
  EXPECT_EQ(deadline_after(milliseconds(1), now), now + milliseconds(1));
  EXPECT_EQ(deadline_after(kForever - milliseconds(1), now), now + (kForever - milliseconds(1)));
  EXPECT_EQ(deadline_after(milliseconds::max(), now), now + kForever);
  EXPECT_EQ(deadline_after(milliseconds(-1), now), now);
  EXPECT_EQ(deadline_after(milliseconds::min(), now), now);
  // There is room to go on from there.
  EXPECT_GT(deadline_after(milliseconds::max(), now) + kForever, now);
}

}  // namespace
}  // namespace tutti
