#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "communicator/arrivals.h"
#include "support/ranks.h"
#include "support/together.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr int kRanks = 4;
constexpr int kRounds = 3;
constexpr milliseconds kLate{60};
// A rank that did not get its core for longer is late, too: what is noted of it is outweighed by further rounds.
constexpr int kMostTries = 40;

Statistics::Waited total_but(const std::vector<Statistics::Waited>& waited, int rank) {
  Statistics::Waited total;
  for (std::size_t r = 0; r < waited.size(); ++r) {
    if (static_cast<int>(r) == rank) continue;
    total.calls += waited[r].calls;
    total.seconds += waited[r].seconds;
  }
  return total;
}

// Each rank comes by its delay too late to the calls that `call` makes. Those without the longest blame the one that
// has it, for `calls` of them and half of `late` each, and more than all others together.
void expect_blame(const RankSetup& setup, const std::vector<milliseconds>& delays, std::uint64_t calls,
                  milliseconds late, const std::function<void(Communicator&)>& call) {
  Together together(kRanks);
  const auto latecomer = static_cast<int>(std::ranges::max_element(delays) - delays.begin());
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        const int rank = communicator.rank();
        std::vector<Statistics::Waited> waited;
        const auto blames = [&] {
          if (rank == latecomer) return true;
          const Statistics::Waited& blamed = waited[static_cast<std::size_t>(latecomer)];
          return blamed.calls >= calls &&
                 blamed.seconds >= 0.5e-3 * static_cast<double>(calls) * static_cast<double>(late.count()) &&
                 blamed.seconds > total_but(waited, latecomer).seconds;
        };
        int tries = 0;
        do {
          for (int round = 0; round < kRounds; ++round) {
            together.wait();
            std::this_thread::sleep_for(delays[static_cast<std::size_t>(rank)]);
            call(communicator);
          }
          waited = communicator.statistics().waited_for;
          ASSERT_EQ(waited.size(), static_cast<std::size_t>(kRanks));
          EXPECT_EQ(waited[static_cast<std::size_t>(rank)].calls, 0u) << "nobody waits for itself";
        } while (!together.agree(blames()) && ++tries < kMostTries);
        EXPECT_TRUE(blames()) << "rank " << rank << " of " << latecomer << ": "
                              << waited[static_cast<std::size_t>(latecomer)].seconds << " s of "
                              << total_but(waited, rank).seconds << " s";
      },
      setup);
}

// Rank 2 comes late.
void expect_blame(const RankSetup& setup, const std::function<void(Communicator&)>& call) {
  expect_blame(setup, {milliseconds(0), milliseconds(0), kLate, milliseconds(0)}, kRounds, kLate, call);
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
  expect_blame({}, {milliseconds(0), milliseconds(40), milliseconds(80), milliseconds(120)}, 1, milliseconds(0),
               all_reduce);
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
