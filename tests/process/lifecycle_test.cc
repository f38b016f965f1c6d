// Communicators come and go: what is held, what limits there are, and ends at awkward moments.

#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "process/job.h"
#include "process/ways.h"

namespace tutti {
namespace {

class LifecycleOver : public ProcessTest, public testing::WithParamInterface<Way> {
 protected:
  std::unique_ptr<Job> start(int ranks, const std::vector<std::string>& actions, const Job::Adapt& adapt = {}) {
    return std::make_unique<Job>(ranks, actions, place(), Environment{}, [&](int rank, Program& program) {
      program.environment.merge(GetParam().variables(GetParam().name == kMixed.name ? rank + 1 : rank));
      if (adapt) adapt(rank, program);
    });
  }
};

TEST_P(LifecycleOver, F61NothingIsLeftOfManyCommunicators) {
  const std::string times = std::getenv("TUTTI_TEST_SOAK") != nullptr ? "1000" : "50";
  const auto job = start(2, {"cycle:1", "descriptors", "cycle:" + times, "descriptors"});
  if (!job->all_ended(0)) return;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string text = job->rank(rank).text();
    const std::size_t first = text.find("left ");
    const std::size_t last = text.rfind("left ");
    ASSERT_NE(first, last) << text;
    EXPECT_EQ(text.substr(first, text.find('\n', first) - first), text.substr(last, text.find('\n', last) - last));
  }
}

TEST_P(LifecycleOver, DeathBetweenJoiningAndTheFirstCallIsToldToAll) {
  const auto job = start(4, {"join", "say:here", "loop:1000"}, [](int rank, Program& program) {
    if (rank == 2) program.command.back() = "sleep:60000";
  });
  ASSERT_TRUE(job->all_said("here"));
  job->rank(2).send(SIGKILL);
  if (!job->all_ended(3, {2})) return;
  for (const int rank : {0, 1, 3}) EXPECT_EQ(told_error(job->rank(rank)).peer, 2) << job->rank(rank).text();
}

// Whoever has left already ends well; whoever has not may be told.
TEST_P(LifecycleOver, DeathWhileAllDestroyHoldsNobody) {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  std::printf("TUTTI_TEST_SEED=%u\n", seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 4 && !HasFailure(); ++trial) {
    const int victim = static_cast<int>(random() % 4);
    const auto job = start(4, {"join", "calls:3:1000", "say:here", "destroy"});
    ASSERT_TRUE(job->rank(victim).wait_for_line("here", kPatience));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4'000));
    job->rank(victim).send(SIGKILL);
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      ASSERT_TRUE(job->rank(rank).wait(kPatience)) << job->rank(rank).text();
      EXPECT_TRUE(job->rank(rank).code() == 0 || told_error(job->rank(rank)).peer == victim) << job->rank(rank).text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, LifecycleOver, testing::ValuesIn(kWays), name_of_way);

class Lifecycle : public ProcessTest {
 protected:
  // The rank with the trouble says it in its own words, and the others hear of it long before they give up.
  void expect_told_at_once(Job& job, int rank, const std::string& code, const std::vector<std::string>& parts) {
    if (!job.all_ended(3)) return;
    EXPECT_LT(now_ms() - began_ms_, 20'000);
    for (int r = 0; r < job.ranks(); ++r) {
      const ToldError told = told_error(job.rank(r));
      EXPECT_EQ(told.code, r == rank ? code : "remote failure") << job.rank(r).text();
      EXPECT_TRUE(r == rank || told.peer == rank) << job.rank(r).text();
      for (const std::string& part : parts) EXPECT_TRUE(contains(told.message, part)) << job.rank(r).text();
    }
  }

  const long long began_ms_ = now_ms();
};

TEST_F(Lifecycle, F62ARankWithoutDescriptorsSaysHowManyItNeedsAndTellsTheOthers) {
  for (const int poor : {0, 1, 2}) {
    Job job(3, {"join", "sums:1000", "destroy"}, place(), {}, [&](int rank, Program& program) {
      if (rank != poor) return;
      program.command.insert(program.command.begin() + 1, "hold:10");
      program.prepare = [] {
        const rlimit limit{64, 64};
        ::setrlimit(RLIMIT_NOFILE, &limit);
      };
    });
    expect_told_at_once(job, poor, "system error", {"descriptors", "of 64", "ulimit -Hn"});
  }
}

TEST_F(Lifecycle, ARankWithoutThreadsForTheSplitsOfAGroupTellsTheOthers) {
  for (const int poor : {0, 2}) {
    Job job(3, {"join", "split_together"}, place(), {}, [&](int rank, Program& program) {
      if (rank == poor) program.command.insert(program.command.end() - 1, "no_threads");
    });
    expect_told_at_once(job, poor, "system error", {"cannot start a thread", "ulimit -u"});
  }
}

TEST_F(Lifecycle, ABadSettingOfOneRankIsToldToTheOthersAtOnce) {
  for (const int odd : {0, 2}) {
    Job job(3, {"join", "destroy"}, place(), {}, [&](int rank, Program& program) {
      if (rank == odd) program.environment["TUTTI_SILENCE"] = "never";
    });
    expect_told_at_once(job, odd, "invalid setting", {"TUTTI_SILENCE=never"});
  }
}

}  // namespace
}  // namespace tutti
