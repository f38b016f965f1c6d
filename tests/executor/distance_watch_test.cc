#include "executor/distance_watch.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

bool far_after(DistanceWatch& watch, int loads, double ns) {
  for (int i = 0; i < loads; ++i) watch.note(ns);
  return watch.is_far();
}

TEST(DistanceWatch, BelievesWhatWasMeasuredAtFirst) {
  EXPECT_FALSE(DistanceWatch().is_far());
  EXPECT_FALSE(DistanceWatch(50).is_far());
  EXPECT_TRUE(DistanceWatch(230).is_far());
}

TEST(DistanceWatch, FollowsAPeerThatIsMoved) {
  DistanceWatch watch(50);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(far_after(watch, 20, 90));
    EXPECT_TRUE(far_after(watch, 20, 260));
  }
}

TEST(DistanceWatch, DoesNotBelieveASingleLoad) {
  DistanceWatch watch(50);
  EXPECT_FALSE(far_after(watch, 5, 80));
  for (int i = 0; i < 100; ++i) {
    watch.note(5000);
    watch.note(5000);
    EXPECT_FALSE(far_after(watch, 3, 80));
  }
  // Lines that were here already say nothing either.
  DistanceWatch far(230);
  EXPECT_TRUE(far_after(far, 5, 260));
  for (int i = 0; i < 100; ++i) {
    far.note(25);
    far.note(25);
    EXPECT_TRUE(far_after(far, 3, 260));
  }
}

TEST(DistanceWatch, DoesNotTakeAClockThatTicksCoarselyForAMove) {
  DistanceWatch near(50);
  EXPECT_FALSE(far_after(near, 5, 20));
  EXPECT_FALSE(far_after(near, 100, 50));
  DistanceWatch far(230);
  EXPECT_TRUE(far_after(far, 5, 60));
  EXPECT_TRUE(far_after(far, 100, 20));
}

// The first opinion may be out of date when the first loads are timed: then it is put right by the moves that follow.
TEST(DistanceWatch, RecoversFromAFirstOpinionThatWasOutOfDate) {
  DistanceWatch believed_far(230), believed_near(50);
  far_after(believed_far, 10, 50);
  EXPECT_TRUE(far_after(believed_far, 10, 260));
  EXPECT_FALSE(far_after(believed_far, 10, 50));
  far_after(believed_near, 10, 260);
  EXPECT_FALSE(far_after(believed_near, 10, 50));
  EXPECT_TRUE(far_after(believed_near, 10, 260));
}

TEST(DistanceWatch, KeepsItsOpinionWhereLoadsSayNothing) {
  // On some machines the clock does not wait for the load.
  DistanceWatch near(50), far(230);
  EXPECT_FALSE(far_after(near, 100, 30));
  EXPECT_TRUE(far_after(far, 100, 30));
  EXPECT_FALSE(far_after(near, 100, 45));
}

}  // namespace
}  // namespace tutti
