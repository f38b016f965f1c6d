// Survivors that go on without those who died.

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "process/job.h"
#include "process/ways.h"

namespace tutti {
namespace {

class Shrink : public ProcessTest {
 protected:
  static constexpr int kRanks = 4;
  // What survivors do: until somebody dies, then without him.
  const std::vector<std::string> kGoOn = {"name:blue", "join",    "fail:2000",  "shrink",
                                          "sums:5000", "destroy", "descriptors"};

  std::unique_ptr<Job> start(const std::vector<std::string>& actions, const Way& way = kShm,
                             const Job::Adapt& adapt = {}, const Environment& environment = {}) {
    return std::make_unique<Job>(kRanks, actions, place(), environment, [&](int rank, Program& program) {
      program.environment.merge(way.variables(rank));
      if (adapt) adapt(rank, program);
    });
  }

  // All but the dead ended well, as members of one communicator, in the old order, and hold nothing of the library's.
  static void expect_shrunk(Job& job, const std::set<int>& dead) {
    const std::vector<int> but(dead.begin(), dead.end());
    if (!job.all_ended(0, but)) return;
    int expected = 0;
    for (int rank = 0; rank < job.ranks(); ++rank) {
      if (dead.contains(rank)) continue;
      const std::string text = job.rank(rank).text();
      const std::string part =
          " rank " + std::to_string(expected++) + " of " + std::to_string(job.ranks() - static_cast<int>(dead.size()));
      EXPECT_TRUE(job.rank(rank).line("shrunk at=").ends_with(part)) << "no" << part << " in: " << text;
      EXPECT_EQ(count_lines(text, "sums right"), 1) << text;
      EXPECT_TRUE(contains(text, "threads=1 mappings=0")) << text;
    }
  }
};

class ShrinkOver : public Shrink, public testing::WithParamInterface<Way> {};

TEST_P(ShrinkOver, WhoeverIsKilled) {
  for (const std::set<int>& victims : std::vector<std::set<int>>{{0}, {3}, {1, 2}, {0, 1}, {0, 1, 2}}) {
    const auto job = start(kGoOn, GetParam());
    ASSERT_TRUE(job->all_said("looping"));
    // Who dies last may not go on with the survivors before.
    for (const int victim : victims) job->rank(victim).stop();
    for (const int victim : victims) job->rank(victim).send(SIGKILL);
    expect_shrunk(*job, victims);
    if (HasFailure()) return;
  }
}

TEST_P(ShrinkOver, F59WhileARankExits) {
  const auto job = start(kGoOn, GetParam(), [](int rank, Program& program) {
    if (rank == 2) program.command.insert(program.command.end() - 5, "exit:0");
  });
  ASSERT_TRUE(job->rank(2).wait(kPatience));
  expect_shrunk(*job, {2});
}

TEST_P(ShrinkOver, RanksThatLeftAreNoSurvivors) {
  const auto job = start(kGoOn, GetParam(), [](int rank, Program& program) {
    if (rank == 1) program.command.insert(program.command.end() - 5, {"calls:3:2000", "destroy", "sleep:60000"});
  });
  ASSERT_TRUE(job->rank(1).wait_for_line("destroyed", kPatience));
  expect_shrunk(*job, {1});
}

TEST_P(ShrinkOver, AllRanksWhenNobodyDied) {
  const auto job = start({"join", "sums:100", "shrink", "sums:5000", "destroy", "descriptors"}, GetParam());
  job->all_ended(0);
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string part = " rank " + std::to_string(rank) + " of 4";
    EXPECT_TRUE(job->rank(rank).line("shrunk at=").ends_with(part)) << job->rank(rank).text();
  }
}

TEST_P(ShrinkOver, AgainAndAgain) {
  const auto job = start({"join", "fail:2000", "shrink", "fail:100", "shrink", "sums:5000", "destroy"}, GetParam());
  ASSERT_TRUE(job->all_said("looping"));
  job->rank(0).send(SIGKILL);
  for (int rank = 1; rank < kRanks; ++rank) ASSERT_TRUE(job->rank(rank).wait_for_line("shrunk", kPatience));
  std::this_thread::sleep_for(milliseconds(20));
  job->rank(2).send(SIGKILL);
  job->all_ended(0, {0, 2});
  EXPECT_TRUE(contains(job->rank(1).text(), "rank 0 of 2")) << job->rank(1).text();
  EXPECT_TRUE(contains(job->rank(3).text(), "rank 1 of 2")) << job->rank(3).text();
}

INSTANTIATE_TEST_SUITE_P(Transports, ShrinkOver, testing::ValuesIn(kWays), name_of_way);

TEST_F(Shrink, NamesTheRankThatLivesButDoesNotCall) {
  for (const int absent : {0, 2}) {
    const auto job = start({"name:blue", "join", "calls:3", "say:here", "fail:2000", "shrink:1500"}, kShm,
                           [&](int rank, Program& p) {
                             if (rank != absent) return;
                             p.command.pop_back();
                             p.command.back() = "sleep:60000";
                           },
                           {{"TUTTI_STALL_WARNING", "1"}});
    ASSERT_TRUE(job->all_said("here"));
    job->rank(1).send(SIGKILL);
    job->all_ended(3, {1, absent});
    for (const int rank : {0, 2, 3}) {
      if (rank == absent) continue;
      const ToldError told = told_error(job->rank(rank));
      EXPECT_EQ(told.code, "timeout") << job->rank(rank).text();
      EXPECT_EQ(told.peer, absent) << job->rank(rank).text();
      EXPECT_TRUE(contains(told.message, "did not call shrink()")) << told.message;
      const std::string warning = "shrink of communicator \"blue\": rank " + std::to_string(rank) + " has waited ";
      const int waits_for = absent == 2 && rank == 3 ? 0 : absent;  // which leads
      EXPECT_TRUE(contains(job->rank(rank).text(), warning)) << job->rank(rank).text();
      EXPECT_TRUE(contains(job->rank(rank).text(), " s for rank " + std::to_string(waits_for) + " ("))
          << job->rank(rank).text();
    }
  }
}

// It may only stand still for a moment: nobody goes on without it in so short a time.
TEST_F(Shrink, NamesAStoppedRankWherePatienceIsShort) {
  for (const int stopped : {0, 2}) {
    const std::string when = directory() + "/stopped" + std::to_string(stopped);
    const auto job = start({"name:blue", "join", "say:here", "fail:2000", "wait_for:" + when, "shrink:500"}, kShm,
                           [&](int rank, Program& p) {
                             if (rank == stopped) p.command.insert(p.command.end() - 3, "sleep:60000");
                           });
    ASSERT_TRUE(job->all_said("here"));
    job->rank(1).send(SIGKILL);
    for (const int rank : {0, 2, 3}) {
      if (rank == stopped) continue;
      ASSERT_TRUE(job->rank(rank).wait_for_line("failed ", kPatience)) << job->rank(rank).text();
    }
    job->rank(stopped).stop();
    std::ofstream(when) << "now\n";
    job->all_ended(3, {1, stopped});
    for (const int rank : {0, 2, 3}) {
      if (rank == stopped) continue;
      const ToldError told = told_error(job->rank(rank));
      EXPECT_EQ(told.code, "timeout") << job->rank(rank).text();
      EXPECT_EQ(told.peer, stopped) << job->rank(rank).text();
    }
  }
}

TEST_F(Shrink, GoesOnWithoutAStoppedRankAndTellsItLater) {
  for (const int victim : {0, 2}) {
    const auto job = start(kGoOn, kMixed, {}, {{"TUTTI_SILENCE", "2"}});
    ASSERT_TRUE(job->all_said("looping"));
    job->rank(victim).send(SIGSTOP);
    expect_shrunk(*job, {victim});
    job->rank(victim).send(SIGCONT);
    ASSERT_TRUE(job->rank(victim).wait(kPatience)) << job->rank(victim).text();
    EXPECT_EQ(job->rank(victim).code(), 3) << job->rank(victim).text();
    EXPECT_TRUE(contains(told_error(job->rank(victim)).message, "without")) << job->rank(victim).text();
  }
}

// Wherever a rank that was given up still writes: the survivors' buffers are theirs.
TEST_F(Shrink, KeepsWhatIsPutThereAfterwardsFromARankThatWasGivenUp_D2) {
  for (const std::string memory : {"library", "registered"}) {
    for (const std::string end : {"shrink", "destroy"}) {
      const std::string meeting_place = directory() + "/" + memory + "_" + end;
      ASSERT_TRUE(std::filesystem::create_directory(meeting_place));
      const auto job = start({"join", "late_writes:" + memory + ":" + end + ":" + meeting_place}, kShm, {},
                             {{"TUTTI_ALGO", "all_reduce:two_shot"}});
      if (!job->all_ended(0)) return;
      for (int rank = 0; rank < kRanks - 1; ++rank) EXPECT_TRUE(contains(job->rank(rank).text(), "not changed"));
    }
  }
}

// One rank is dead already; another dies at any moment of the others' agreement, meeting or set-up. The rest agree.
TEST_F(Shrink, SurvivesAKillAtAnyMoment) {
  const char* wish = std::getenv("TUTTI_TEST_SOAK");
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  std::printf("TUTTI_TEST_SEED=%u\n", seed);
  std::mt19937 random(seed);
  std::map<std::string, int> outcomes;
  for (int trial = 0; trial < (wish != nullptr ? 60 : 8) && !HasFailure(); ++trial) {
    const Way& way = kWays[trial % 3];
    const int second = trial % 2 == 0 ? 0 : static_cast<int>(random() % 3);  // the leader, often
    const auto job = start({"name:blue", "join", "shrink_until:2", "sums:1000", "destroy"}, way);
    ASSERT_TRUE(job->all_said("looping"));
    job->rank(3).send(SIGKILL);
    const int other = second == 0 ? 1 : 0;
    ASSERT_TRUE(job->rank(other).wait_for_line("shrinking", kPatience));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (way.name == kShm.name ? 15'000 : 60'000)));
    job->rank(second).send(SIGKILL);
    // Those who were through before are told in their next call, and shrink again; the others never saw a third.
    job->all_ended(0, {3, second});
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == second) continue;
      const std::string text = job->rank(rank).text();
      EXPECT_TRUE(contains(text, " of 2\n")) << text;
      ++outcomes[contains(text, " of 3\n") ? "was through already" : "during the agreement"];
    }
  }
  for (const auto& [what, count] : outcomes) std::printf("the second death came when %d %s\n", count, what.c_str());
}

}  // namespace
}  // namespace tutti
