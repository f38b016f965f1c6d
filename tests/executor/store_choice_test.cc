#include "executor/store_choice.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

constexpr std::size_t kPiece = 128 * 1024;

// A machine on which writing costs so many nanoseconds a byte, by kind.
struct Machine {
  double ordinary;
  double streaming;

  double time(StoreKind kind, std::size_t bytes) const {
    return static_cast<double>(bytes) * (kind == StoreKind::kOrdinary ? ordinary : streaming);
  }
};
constexpr Machine kNear{0.03, 0.11};
constexpr Machine kFar{0.4, 0.11};

struct Written {
  double streamed = 0;  // the share of bytes that was written past the caches
  double timed = 0;     // the share of writes that was timed
};
Written write(StoreChoice& choice, const Machine& machine, std::size_t bytes, std::size_t piece) {
  const double pieces = static_cast<double>(bytes) / static_cast<double>(piece);
  Written written;
  for (std::size_t at = 0; at < bytes; at += piece) {
    const StoreKind kind = choice.kind();
    if (kind == StoreKind::kStreaming) written.streamed += 1 / pieces;
    if (!choice.wants_time(piece)) continue;
    written.timed += 1 / pieces;
    choice.note(piece, machine.time(kind, piece));
  }
  return written;
}
double streamed_share(StoreChoice& choice, const Machine& machine, std::size_t bytes, std::size_t piece = kPiece) {
  return write(choice, machine, bytes, piece).streamed;
}

constexpr std::size_t kWhile = std::size_t{4} << 20;
constexpr std::size_t kLong = std::size_t{1} << 30;

TEST(StoreChoice, StaysOrdinaryNearWithoutATrial) {
  StoreChoice choice;
  EXPECT_EQ(streamed_share(choice, kNear, kLong), 0);
}

TEST(StoreChoice, FindsOutByItselfThatThePeerIsFar) {
  StoreChoice choice;
  streamed_share(choice, kFar, kWhile);
  EXPECT_EQ(choice.kind(), StoreKind::kStreaming);
  EXPECT_GT(streamed_share(choice, kFar, kLong), 0.98);
}

TEST(StoreChoice, BeginsWithItsGuess) {
  StoreChoice choice(StoreKind::kStreaming);
  EXPECT_EQ(choice.kind(), StoreKind::kStreaming);
  EXPECT_GT(streamed_share(choice, kFar, kLong), 0.98);
}

TEST(StoreChoice, DoesNotHoldTheVeryFirstWriteAgainstItsGuess) {
  StoreChoice choice(StoreKind::kStreaming);
  choice.note(kPiece, 10 * kFar.time(StoreKind::kStreaming, kPiece));
  EXPECT_GT(streamed_share(choice, kFar, kWhile), 0.8);
}

TEST(StoreChoice, FollowsAProcessorThatMoves) {
  for (const std::size_t piece : {StoreChoice::kShortestMeasured, kPiece}) {
    StoreChoice choice;
    for (int i = 0; i < 3; ++i) {
      streamed_share(choice, kNear, kLong, piece);
      EXPECT_EQ(choice.kind(), StoreKind::kOrdinary);
      streamed_share(choice, kFar, kWhile, piece);
      EXPECT_EQ(choice.kind(), StoreKind::kStreaming);
      EXPECT_GT(streamed_share(choice, kFar, kWhile, piece), 0.9);
      // The way back shows only in trials.
      streamed_share(choice, kNear, StoreChoice::kBetweenTrials + kWhile, piece);
    }
  }
}

TEST(StoreChoice, TimesFewOfTheShortWritesOnceItHasDecided) {
  for (const Machine& machine : {kNear, kFar}) {
    StoreChoice choice;
    EXPECT_EQ(write(choice, machine, StoreChoice::kTrialBytes, StoreChoice::kShortestMeasured).timed, 1);
    write(choice, machine, kWhile, StoreChoice::kShortestMeasured);
    EXPECT_LT(write(choice, machine, kLong, StoreChoice::kShortestMeasured).timed, 0.15);
    EXPECT_EQ(write(choice, machine, kLong, kPiece).timed, 1) << "of a long one a clock takes no part that counts";
  }
}

TEST(StoreChoice, DoesNotBelieveAThreadThatWasHeldUp) {
  StoreChoice choice;
  streamed_share(choice, kFar, kWhile);
  ASSERT_EQ(choice.kind(), StoreKind::kStreaming);
  // A timer tick in every trial, of either kind.
  for (std::size_t written = 0; written < kLong; written += kPiece) {
    const StoreKind kind = choice.kind();
    const double pause = written / kPiece % 64 == 1 ? 4e6 : 0;
    choice.note(kPiece, kFar.time(kind, kPiece) + pause);
  }
  EXPECT_GT(streamed_share(choice, kFar, kLong), 0.98);
  StoreChoice near;
  for (std::size_t written = 0; written < kLong; written += kPiece) {
    const StoreKind kind = near.kind();
    const double pause = written / kPiece % 64 == 1 ? 4e6 : 0;
    near.note(kPiece, kNear.time(kind, kPiece) + pause);
  }
  EXPECT_LT(streamed_share(near, kNear, kLong), 0.02);
}

TEST(StoreChoice, DoesNotMeasureWhatIsTooShort) {
  StoreChoice choice;
  constexpr std::size_t kShort = StoreChoice::kShortestMeasured - 1;
  for (int i = 0; i < 100'000; ++i) {
    EXPECT_FALSE(choice.wants_time(kShort));
    choice.note(kShort, kFar.time(choice.kind(), kShort));
  }
  EXPECT_EQ(choice.kind(), StoreKind::kOrdinary);
}

}  // namespace
}  // namespace tutti
