// Ranks that die, leave or throw while others count on them.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <thread>

#include "process/job.h"
#include "process/ways.h"

namespace tutti {
namespace {

constexpr long long kBoundMs = 5'000;      // what is promised
constexpr long long kGenerousMs = 20'000;  // what fails the test, on a machine that does other things too

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

class Death : public ProcessTest {
 protected:
  static constexpr int kRanks = 4;

  std::unique_ptr<Job> start(const std::vector<std::string>& actions, const Way& way, const Job::Adapt& adapt = {}) {
    return std::make_unique<Job>(kRanks, actions, place(), Environment{}, [&](int rank, Program& program) {
      program.environment.merge(way.variables(rank));
      if (adapt) adapt(rank, program);
    });
  }

  // Every survivor was told, in time, who died: rank, host and process, and in which call of which communicator.
  void expect_told(Job& job, int victim, long long since_ms, const std::string& call, const std::string& what) {
    if (!job.all_ended(3, {victim})) return;
    const std::string pid = "pid " + std::to_string(job.rank(victim).pid());
    for (int rank = 0; rank < job.ranks(); ++rank) {
      if (rank == victim) continue;
      const ChildProcess& survivor = job.rank(rank);
      const ToldError told = told_error(survivor);
      const long long after = told.at_ms - since_ms;
      slowest_ms_ = std::max(slowest_ms_, after);
      EXPECT_LT(after, kGenerousMs) << survivor.text();
      EXPECT_EQ(told.code, "remote failure") << survivor.text();
      EXPECT_EQ(told.peer, victim) << survivor.text();
      for (const std::string& part : {"rank " + std::to_string(victim) + " (" + own_host_name() + " " + pid, call,
                                      std::string("\"blue\""), what}) {
        EXPECT_TRUE(contains(told.message, part)) << "no " << part << " in: " << told.message;
      }
      expect_stays_failed(survivor, told);
    }
  }

  // Later calls fail at once, in the same way, and destroying does not hang.
  static void expect_stays_failed(const ChildProcess& survivor, const ToldError& told) {
    const std::string again = survivor.line("again after=");
    EXPECT_LT(std::stoi("0" + again), 1'000) << survivor.text();
    EXPECT_TRUE(contains(again, "code=" + told.code + " peer=" + std::to_string(told.peer))) << survivor.text();
    const std::string left = survivor.line("destroyed after=");
    ASSERT_FALSE(left.empty()) << survivor.text();
    EXPECT_LT(std::stoi(left), 10'000) << survivor.text();
  }

  void TearDown() override {
    if (slowest_ms_ >= 0) {
      std::printf("the slowest survivor was told after %lld ms (promised: %lld)\n", slowest_ms_, kBoundMs);
    }
    ProcessTest::TearDown();
  }

  long long slowest_ms_ = -1;
};

class DeathOver : public Death, public testing::WithParamInterface<Way> {
 protected:
  // Kills a rank once all are at work.
  void kill_and_expect(Job& job, int victim, const std::string& call) {
    std::this_thread::sleep_for(milliseconds(50));
    const long long since = now_ms();
    job.rank(victim).send(SIGKILL);
    expect_told(job, victim, since, call, "died");
  }
};

TEST_P(DeathOver, F57InTheMidstOfAllReducesIsToldToAll) {
  for (const int victim : {0, 1, kRanks - 1}) {
    const auto job = start({"name:blue", "join", "loop:20000"}, GetParam());
    ASSERT_TRUE(job->all_said("looping"));
    kill_and_expect(*job, victim, "all_reduce f32×20000 sum #");
  }
}

TEST_P(DeathOver, EndsABarrier) {
  const auto job = start({"name:blue", "join", "calls:3", "say:here", "barrier"}, GetParam(), [](int rank, Program& p) {
    if (rank == 2) p.command.insert(p.command.end() - 1, "sleep:60000");
  });
  ASSERT_TRUE(job->all_said("here"));
  kill_and_expect(*job, 2, "barrier #4");
}

TEST_P(DeathOver, EndsAReceive) {
  for (const char* from : {"2", "any"}) {
    const auto job = start({"name:blue", "join", "calls:3", "say:here", std::string("recv:") + from}, GetParam(),
                           [](int rank, Program& p) {
                             if (rank == 2) p.command.back() = "sleep:60000";
                           });
    ASSERT_TRUE(job->all_said("here"));
    kill_and_expect(*job, 2, std::string("recv f32×1000 from ") + from);
  }
}

TEST_P(DeathOver, EndsASend) {
  const auto job = start({"name:blue", "join", "calls:3", "say:here", "send:2"}, GetParam(), [](int rank, Program& p) {
    if (rank == 2) p.command.back() = "sleep:60000";
  });
  ASSERT_TRUE(job->all_said("here"));
  kill_and_expect(*job, 2, "send f32×1000 to 2");
}

TEST_P(DeathOver, F57AtRandomTimesIsToldToAll) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  std::printf("TUTTI_TEST_SEED=%u\n", seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 4 && !HasFailure(); ++trial) {
    const int victim = static_cast<int>(random() % kRanks);
    const auto count = std::to_string(1 << random() % 18);
    const auto job = start({"name:blue", "join", "loop:" + count}, GetParam());
    ASSERT_TRUE(job->all_said("looping"));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
    const long long since = now_ms();
    job->rank(victim).send(SIGKILL);
    expect_told(*job, victim, since, "all_reduce f32×" + count + " sum #", "died");
  }
}

// A rank that ends by itself, in one of these ways, while the others call on.
TEST_P(DeathOver, ByExitWithoutDestroyingIsToldToAll) {
  const auto job = start({"name:blue", "join", "calls:3", "loop:100"}, GetParam(), [](int rank, Program& p) {
    if (rank == 1) p.command.back() = "exit:7";
  });
  expect_told(*job, 1, now_ms(), "all_reduce f32×", "died");
  EXPECT_TRUE(job->rank(1).wait(kPatience));
  EXPECT_EQ(job->rank(1).code(), 7) << job->rank(1).text();
}

TEST_P(DeathOver, ByAnExceptionThatNobodyCatchesIsToldToAll) {
  const auto job = start({"name:blue", "join", "calls:3", "loop:100"}, GetParam(), [](int rank, Program& p) {
    if (rank == 3) p.command.back() = "throw";
  });
  expect_told(*job, 3, now_ms(), "all_reduce f32×", "died");
  EXPECT_TRUE(job->rank(3).wait(kPatience));
  EXPECT_EQ(job->rank(3).code(), 128 + SIGABRT) << job->rank(3).text();
}

TEST_P(DeathOver, F64LeavingEarlyIsToldToThoseWhoCallOn) {
  const auto job = start({"name:blue", "join", "calls:3", "loop:100"}, GetParam(), [](int rank, Program& p) {
    if (rank == 0) p.command.back() = "destroy";
  });
  expect_told(*job, 0, now_ms(), "all_reduce f32×100 sum #4", "left after call #3");
  EXPECT_TRUE(job->rank(0).wait(kPatience));
  EXPECT_EQ(job->rank(0).code(), 0) << job->rank(0).text();
}

TEST_P(DeathOver, F64LeavingIsToldToThoseWhoReceive) {
  const auto job = start({"name:blue", "join", "calls:3", "recv:0"}, GetParam(), [](int rank, Program& p) {
    if (rank == 0) p.command.back() = "destroy";
  });
  expect_told(*job, 0, now_ms(), "recv f32×1000 from 0", "has left");
}

// Ranks disagree on a call: all learn who and how.
TEST_P(DeathOver, F67DifferentCallsAreToldToAll) {
  struct Case {
    const char* others;
    const char* odd;
  };
  for (const Case& c : {Case{"calls:1:100", "calls:1:200"}, Case{"calls:1:100000", "calls:1:200000"},
                        Case{"calls:1:100", "barrier"}, Case{"broadcast:1000", "calls:1:1000"}}) {
    const auto job =
        start({"name:blue", "join", "calls:2", c.others, "barrier"}, GetParam(), [&](int rank, Program& p) {
          if (rank == 1) p.command[p.command.size() - 2] = c.odd;
        });
    job->all_ended(3);
    for (int rank = 0; rank < kRanks; ++rank) {
      const ToldError told = told_error(job->rank(rank));
      EXPECT_EQ(told.code, "mismatch") << c.others << " and " << c.odd << ": " << job->rank(rank).text();
      EXPECT_TRUE(contains(told.message, "#3")) << job->rank(rank).text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, DeathOver, testing::ValuesIn(kWays), name_of_way);

// While ranks still meet, connect and find out what they share: nobody hangs, whoever was told names the victim.
TEST_F(Death, WhileTheCommunicatorIsMadeHangsNobody) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  std::printf("TUTTI_TEST_SEED=%u\n", seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 6 && !HasFailure(); ++trial) {
    const int victim = static_cast<int>(random() % kRanks);
    const Way& way = trial % 3 == 0 ? kTcp : trial % 3 == 1 ? kShm : kMixed;
    const auto job = start({"name:blue", "join", "loop:1000"}, way,
                           [](int, Program& program) { program.environment["TUTTI_MEET_TIMEOUT"] = "4"; });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 150'000));
    job->rank(victim).send(SIGKILL);
    if (!job->all_ended(3, {victim})) return;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const ToldError told = told_error(job->rank(rank));
      EXPECT_TRUE(told.code == "remote failure" || told.code == "timeout") << job->rank(rank).text();
      // The root may be the victim, or have ended before this rank came.
      const bool root_gone = (victim == 0 && contains(told.message, "root")) ||
                             (told.code == "timeout" && contains(told.message, "could not reach the root"));
      const bool named = contains(told.message, "rank " + std::to_string(victim)) ||
                         contains(told.message, "ranks " + std::to_string(victim));
      // A rank that gave up first, because of the victim, may be the one that another has seen end.
      const bool second_hand = contains(told.message, "ended while the ranks were meeting");
      EXPECT_TRUE(named || root_gone || second_hand) << "rank " << victim << " was killed: " << job->rank(rank).text();
    }
  }
}

}  // namespace
}  // namespace tutti
