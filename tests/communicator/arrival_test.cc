#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "communicator/arrivals.h"
#include "support/ranks.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr int kRanks = 4;
constexpr int kRounds = 3;
constexpr milliseconds kLate{60};

Statistics::Waited total_but(const std::vector<Statistics::Waited>& waited, int rank) {
  Statistics::Waited total;
  for (std::size_t r = 0; r < waited.size(); ++r) {
    if (static_cast<int>(r) == rank) continue;
    total.calls += waited[r].calls;
    total.seconds += waited[r].seconds;
  }
  return total;
}

// Rank 2 comes late to every call; `call` makes it.
void expect_blame(const RankSetup& setup, const std::function<void(Communicator&)>& call) {
  constexpr int kLatecomer = 2;
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        for (int round = 0; round < kRounds; ++round) {
          communicator.barrier();
          if (communicator.rank() == kLatecomer) std::this_thread::sleep_for(kLate);
          call(communicator);
        }
        const auto waited = communicator.statistics().waited_for;
        ASSERT_EQ(waited.size(), static_cast<std::size_t>(kRanks));
        EXPECT_EQ(waited[static_cast<std::size_t>(communicator.rank())].calls, 0u) << "nobody waits for itself";
        if (communicator.rank() == kLatecomer) return;
        const Statistics::Waited& blamed = waited[kLatecomer];
        EXPECT_GE(blamed.calls, static_cast<std::uint64_t>(kRounds));
        EXPECT_GE(blamed.seconds, 0.5e-3 * kRounds * static_cast<double>(kLate.count()));
        EXPECT_LT(total_but(waited, kLatecomer).seconds, blamed.seconds);
      },
      setup);
}

std::vector<float> buffer(1000, 1.0f);

void all_reduce(Communicator& communicator) {
  std::vector<float> output(buffer.size());
  communicator.all_reduce(std::span<const float>(buffer), std::span(output));
}

TEST(ArrivalSkew, IsBlamedOnTheRankThatComesLateOnOneHost) { expect_blame({}, all_reduce); }

TEST(ArrivalSkew, IsBlamedOnTheRankThatComesLateOverTcp) {
  RankSetup setup = over_tcp();
  setup.options.config["TUTTI_ALGO"] = "all_reduce:one_shot";  // every rank hears from the latecomer itself
  expect_blame(setup, all_reduce);
}

TEST(ArrivalSkew, NamesTheLatecomerAndNotWhoeverPassesItsValueOn) {
  expect_blame(with_config({{"TUTTI_ALGO", "all_reduce:ring"}}), all_reduce);
}

TEST(ArrivalSkew, GoesToTheLastOfThoseWhoComeLate) {
  expect_ranks(kRanks, [](Communicator& communicator) {
    for (int round = 0; round < kRounds; ++round) {
      communicator.barrier();
      std::this_thread::sleep_for(40 * communicator.rank() * milliseconds(1));
      all_reduce(communicator);
    }
    const auto waited = communicator.statistics().waited_for;
    if (communicator.rank() == kRanks - 1) return;
    EXPECT_GE(waited[kRanks - 1].calls, 1u);
    EXPECT_LT(total_but(waited, kRanks - 1).seconds, waited[kRanks - 1].seconds);
  });
}

TEST(Wait, BelongsToTheLastThatWasLate) {
  Wait wait;
  wait.note(1, milliseconds(1), true);
  wait.note(3, milliseconds(5), true);
  wait.note(2, milliseconds(6), false);  // all have begun; its message is missing
  EXPECT_EQ(wait.rank(), 3);
  EXPECT_EQ(wait.time(), milliseconds(6));
}

TEST(Wait, AddsUpWhatTheSameRankCausedAndKeepsTheLargest) {
  Wait wait;
  wait.note(1, milliseconds(4), true);
  wait.note(2, milliseconds(1), false);  // a second wait
  EXPECT_EQ(wait.rank(), 1);
  EXPECT_EQ(wait.time(), milliseconds(4));
  wait.note(2, milliseconds(3), false);
  wait.note(1, milliseconds(2), false);
  EXPECT_EQ(wait.rank(), 1);
  EXPECT_EQ(wait.time(), milliseconds(6));
}

TEST(Wait, IsNobodysAtFirst) {
  const Wait wait;
  EXPECT_EQ(wait.rank(), -1);
  EXPECT_EQ(wait.time(), milliseconds(0));
}

}  // namespace
}  // namespace tutti
