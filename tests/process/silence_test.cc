// Ranks that are stopped: the process is there, its sockets are open, and nothing comes from it.

#include <signal.h>

#include <thread>

#include "process/job.h"
#include "process/ways.h"

namespace tutti {
namespace {

class SilenceOver : public ProcessTest, public testing::WithParamInterface<Way> {
 protected:
  static constexpr int kRanks = 6;  // rank 1 is between the root and rank 5

  std::unique_ptr<Job> start(const std::vector<std::string>& actions, const std::string& silence,
                             Environment environment = {}) {
    environment["TUTTI_SILENCE"] = silence;
    return std::make_unique<Job>(kRanks, actions, place(), environment, [](int rank, Program& program) {
      program.environment.merge(GetParam().variables(rank));
    });
  }
};

TEST_P(SilenceOver, AStoppedRankIsNamedByAllOthersAndToldSo) {
  for (const int victim : {0, 1, kRanks - 1}) {
    const auto job = start({"name:blue", "join", "loop:2000"}, "2");
    ASSERT_TRUE(job->all_said("looping"));
    const long long since = now_ms();
    job->rank(victim).send(SIGSTOP);
    if (!job->all_ended(3, {victim})) return;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const ToldError told = told_error(job->rank(rank));
      EXPECT_GE(told.at_ms - since, 1'500) << job->rank(rank).text();
      EXPECT_LT(told.at_ms - since, 20'000) << job->rank(rank).text();
      EXPECT_EQ(told.code, "remote failure") << job->rank(rank).text();
      EXPECT_EQ(told.peer, victim) << job->rank(rank).text();
      for (const std::string& part :
           {"rank " + std::to_string(victim) + " (", std::string("TUTTI_SILENCE"), std::string("\"blue\"")}) {
        EXPECT_TRUE(contains(told.message, part)) << "no " << part << " in: " << told.message;
      }
    }
    job->rank(victim).send(SIGCONT);
    ASSERT_TRUE(job->rank(victim).wait(seconds(30))) << job->rank(victim).text();
    const ToldError told = told_error(job->rank(victim));
    EXPECT_EQ(told.code, "remote failure") << job->rank(victim).text();
    EXPECT_EQ(told.peer, victim) << job->rank(victim).text();
    EXPECT_TRUE(contains(told.message, "given")) << told.message;
  }
}

TEST_P(SilenceOver, AStopThatEndsInTimeDisturbsNobody) {
  for (const int victim : {0, 1, kRanks - 1}) {
    const auto job = start({"join", "calls:20:2000", "say:here", "calls:200:2000", "sums:1000", "destroy"}, "4");
    ASSERT_TRUE(job->all_said("here"));
    job->rank(victim).send(SIGSTOP);
    std::this_thread::sleep_for(milliseconds(1'500));
    job->rank(victim).send(SIGCONT);
    job->all_ended(0);
  }
}

// A suspended machine: all were silent, and nobody has died.
TEST_P(SilenceOver, AllThatWereStoppedTogetherGoOn) {
  const auto job = start({"join", "calls:20:2000", "say:here", "calls:200:2000", "sums:1000", "destroy"}, "1");
  ASSERT_TRUE(job->all_said("here"));
  for (int rank = 0; rank < kRanks; ++rank) job->rank(rank).stop();
  std::this_thread::sleep_for(milliseconds(2'500));
  for (int rank = 0; rank < kRanks; ++rank) job->rank(rank).send(SIGCONT);
  job->all_ended(0);
}

// Long before the silence is over; whoever waits for the stopped rank can only ask what is reached without it.
TEST_P(SilenceOver, AStoppedRankIsNamedToThoseWhoWaitBeforeItIsGivenUp) {
  for (const int victim : {0, 1, kRanks - 1}) {
    const auto job = start({"name:blue", "join", "calls:20:2000", "say:here", "calls:100000:2000", "destroy"}, "60",
                           {{"TUTTI_STALL_WARNING", "1"}});
    ASSERT_TRUE(job->all_said("here"));
    job->rank(victim).send(SIGSTOP);
    const std::string blame = "rank " + std::to_string(victim) + " (";
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const auto told = [&] {
        const std::string text = job->rank(rank).text();
        const std::size_t line = text.find("of \"blue\": ");
        return line != std::string::npos && text.find('\n', line) != std::string::npos;
      };
      const auto give_up = now_ms() + std::chrono::milliseconds(kPatience).count();
      while (!told() && now_ms() < give_up) std::this_thread::sleep_for(milliseconds(20));
      const std::string text = job->rank(rank).text();
      EXPECT_TRUE(contains(text, "of \"blue\": " + blame)) << "rank " << rank << ":\n" << text;
      EXPECT_TRUE(contains(text, "does not answer")) << "rank " << rank << ":\n" << text;
    }
    // It goes on as if nothing had been.
    job->rank(victim).send(SIGCONT);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, SilenceOver, testing::ValuesIn(kWays), name_of_way);

}  // namespace
}  // namespace tutti
