// Communicators that were split off, and ranks that die as members of some and not of others.

#include <signal.h>

#include "process/job.h"
#include "process/ways.h"

namespace tutti {
namespace {

class SplitOver : public ProcessTest, public testing::WithParamInterface<Way> {
 protected:
  static constexpr int kRanks = 4;

  // Ranks 0 to 2 make "a", all but the victim make "b". The victim is killed while "a" is at work; those of "a" go on
  // without it as well.
  void kill_and_expect(int victim, bool parent_stays) {
    const Job::Adapt adapt = [&](int rank, Program& program) {
      program.environment.merge(GetParam().variables(rank));
      std::vector<std::string> actions = {"name:world", "join", "calls:3", rank == 3 ? "split:a:-1" : "split:a:0",
                                          rank == victim ? "split:b:-1" : "split:b:0"};
      if (!parent_stays) actions.push_back("destroy");
      if (rank == victim) {
        actions.insert(actions.end(), {"use:a", "loop:1000"});
      } else {
        if (rank != 3) actions.insert(actions.end(), {"use:a", "fail:1000", "shrink", "sums:1000"});
        if (rank == 3) actions.push_back("say:looping");
        // Long after everybody has been told: with both sizes, and messages between two.
        actions.insert(actions.end(), {"use:b", "calls:200", "sums:3000", "calls:20:100000", "destroy", "drop:a",
                                       "drop:", "descriptors"});
      }
      program.command.resize(1);
      program.command.insert(program.command.end(), actions.begin(), actions.end());
    };
    Job job(kRanks, {}, place(), {}, adapt);
    ASSERT_TRUE(job.all_said("looping"));
    job.rank(victim).send(SIGKILL);
    if (!job.all_ended(0, {victim})) return;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const std::string text = job.rank(rank).text();
      EXPECT_TRUE(contains(text, "threads=1 mappings=0")) << text;
      EXPECT_EQ(count_lines(text, "sums right"), rank == 3 ? 1 : 2) << text;
      if (rank == 3) continue;
      EXPECT_TRUE(job.rank(rank).line("shrunk at=").ends_with(" of 2")) << text;
      const std::string told = job.rank(rank).line("failed ");
      for (const std::string& part :
           {"rank " + std::to_string(victim) + " (", "pid " + std::to_string(job.rank(victim).pid()),
            std::string("\"a\""), std::string("remote failure")}) {
        EXPECT_TRUE(contains(told, part)) << "no " << part << " in: " << text;
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, SplitOver, testing::ValuesIn(kWays), name_of_way);

TEST_P(SplitOver, F57AMemberOfOneCommunicatorIsKilledAndTheOtherGoesOn) {
  for (const int victim : {0, 1, 2}) kill_and_expect(victim, false);
}

TEST_P(SplitOver, F57TheSameWhileTheParentIsStillThere) {
  for (const int victim : {0, 2}) kill_and_expect(victim, true);
}

// A rank dies while its split is being made: all are told, whatever they were doing.
TEST_P(SplitOver, F57DeathInTheMidstOfASplitHangsNobody) {
  for (int trial = 0; trial < 6; ++trial) {
    std::vector<std::string> actions = {"name:world", "join", "say:looping"};
    for (int i = 0; i < 2000; ++i) actions.insert(actions.end(), {"split:x:" + std::to_string(i % 2), "drop:x"});
    Job job(kRanks, actions, place(), {},
            [&](int rank, Program& program) { program.environment.merge(GetParam().variables(rank)); });
    ASSERT_TRUE(job.all_said("looping"));
    std::this_thread::sleep_for(milliseconds(3 + 7 * trial));
    const int victim = trial % kRanks;
    job.rank(victim).send(SIGKILL);
    if (!job.all_ended(3, {victim})) return;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const ToldError told = told_error(job.rank(rank));
      EXPECT_EQ(told.code, "remote failure") << job.rank(rank).text();
      EXPECT_TRUE(contains(told.message, "pid " + std::to_string(job.rank(victim).pid()))) << job.rank(rank).text();
    }
  }
}

}  // namespace
}  // namespace tutti
