// Ranks that fork: data loaders, helpers, children with communicators of their own.

#include <signal.h>

#include <thread>

#include "process/job.h"
#include "process/ways.h"

namespace tutti {
namespace {

class ForkOver : public ProcessTest, public testing::WithParamInterface<Way> {
 protected:
  static constexpr int kRanks = 4;

  std::unique_ptr<Job> start(const std::vector<std::string>& actions) {
    return std::make_unique<Job>(kRanks, actions, place(), Environment{}, [](int rank, Program& program) {
      program.environment.merge(GetParam().variables(rank));
    });
  }
};

TEST_P(ForkOver, EveryCallFailsInTheChildAndTheParentGoesOn) {
  const auto job =
      start({"join", "library", "sums:20000", "fork_check", "calls:3:1000", "fork_check", "sums:20000", "destroy"});
  job->all_ended(0);
}

TEST_P(ForkOver, InTheMidstOfCallsHoldsNeitherChildNorParent) {
  const auto job = start({"join", "fork_storm:5", "sums:1000", "destroy"});
  job->all_ended(0);
}

TEST_P(ForkOver, ChildrenMakeACommunicatorOfTheirOwnBesideTheParents) {
  const auto job = start({"join", "library", "sums:1000", "fork_new:127.0.0.1:47123", "sums:20000", "destroy"});
  job->all_ended(0);
}

TEST_P(ForkOver, LiveChildrenDoNotHideADeath) {
  for (const int victim : {0, 2}) {
    const auto job = start({"name:blue", "join", "sums:1000", "fork_sleeper:60000", "loop:20000"});
    ASSERT_TRUE(job->all_said("looping"));
    const long long since = now_ms();
    job->rank(victim).send(SIGKILL);
    if (!job->all_ended(3, {victim})) return;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const ToldError told = told_error(job->rank(rank));
      EXPECT_LT(told.at_ms - since, 20'000) << job->rank(rank).text();
      EXPECT_EQ(told.peer, victim) << job->rank(rank).text();
      EXPECT_TRUE(contains(told.message, "died")) << job->rank(rank).text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ForkOver, testing::ValuesIn(kWays), name_of_way);

}  // namespace
}  // namespace tutti
