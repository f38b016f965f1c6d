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

// Writes so many bytes; returns the share of them that was written past the caches.
double streamed_share(StoreChoice& choice, const Machine& machine, std::size_t bytes, std::size_t piece = kPiece) {
  std::size_t streamed = 0;
  for (std::size_t written = 0; written < bytes; written += piece) {
    const StoreKind kind = choice.kind();
    if (kind == StoreKind::kStreaming) streamed += piece;
    choice.note(piece, machine.time(kind, piece));
  }
  return static_cast<double>(streamed) / static_cast<double>(bytes);
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
  StoreChoice choice;
  for (int i = 0; i < 3; ++i) {
    streamed_share(choice, kNear, kLong);
    EXPECT_EQ(choice.kind(), StoreKind::kOrdinary);
    streamed_share(choice, kFar, kWhile);
    EXPECT_EQ(choice.kind(), StoreKind::kStreaming);
    EXPECT_GT(streamed_share(choice, kFar, kWhile), 0.9);
    // The way back shows only in trials.
    streamed_share(choice, kNear, StoreChoice::kBetweenTrials + kWhile);
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
  for (int i = 0; i < 100'000; ++i) choice.note(kShort, kFar.time(choice.kind(), kShort));
  EXPECT_EQ(choice.kind(), StoreKind::kOrdinary);
}

}  // namespace
}  // namespace tutti
