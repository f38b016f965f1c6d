// Ranks that wait while they meet and set their communicator up: each says in time for whom, and why.

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "process/job.h"

namespace tutti {
namespace {

class Waiting : public ProcessTest {
 protected:
  static constexpr int kRanks = 4;
  static const Environment kSoon;  // the line comes before a second is over, and again before two

  // Until each of these ranks has written a line with all the parts.
  static void expect_told(Job& job, const std::vector<int>& ranks, const std::vector<std::string>& parts) {
    for (const int rank : ranks) {
      const auto told = [&] {
        const std::string text = job.rank(rank).text();
        std::size_t begin = 0;
        for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
          const std::string line = text.substr(begin, end - begin);
          if (std::ranges::all_of(parts, [&](const std::string& part) { return contains(line, part); })) return true;
        }
        return false;
      };
      const auto give_up = now_ms() + milliseconds(kPatience).count();
      while (!told() && now_ms() < give_up) std::this_thread::sleep_for(milliseconds(20));
      EXPECT_TRUE(told()) << "rank " << rank << " said no line with \"" << parts.front() << "\" … \"" << parts.back()
                          << "\":\n"
                          << job.rank(rank).text();
    }
  }
};

const Environment Waiting::kSoon = {{"TUTTI_STALL_WARNING", "1"}};

TEST_F(Waiting, ForARankThatDoesNotComeNamesItOnEveryRankAgainAndAgain) {
  Job job(kRanks, {"name:blue", "join"}, place(), kSoon, [](int rank, Program& program) {
    if (rank == 2) program.command = {"sleep", "60"};
  });
  for (const int rank : {0, 1, 3}) {
    const std::string who = "communicator \"blue\": rank " + std::to_string(rank) + " has waited ";
    expect_told(job, {rank}, {who + "0.", " s for rank 2 (3 of 4 here)"});
    expect_told(job, {rank}, {who + "1.", " s for rank 2 (3 of 4 here)"});
  }
}

TEST_F(Waiting, CountsThoseThatWereTurnedAway) {
  Job job(kRanks, {"join"}, place(), kSoon, [](int rank, Program& program) {
    if (rank == 2) program.environment["TUTTI_SECRET"] = "the secret of another job";
  });
  expect_told(job, {0, 1, 3}, {"for rank 2 (3 of 4 here); ", " connections were turned away, the last because"});
}

TEST_F(Waiting, ForARootThatDoesNotRunSaysWhere) {
  Job job(kRanks, {"join"}, place(), kSoon, [](int rank, Program& program) {
    if (rank == 0) program.command = {"sleep", "60"};
  });
  expect_told(job, {1, 2, 3}, {"for the root, rank 0, at 127.0.0.1:29500", "Connection refused"});
}

// It listens, but says nothing.
TEST_F(Waiting, ForARootThatIsStoppedBeforeTheyComeSaysSo) {
  Job job(kRanks, {"join"}, place(), kSoon, [](int rank, Program& program) {
    if (rank > 1) program.command.insert(program.command.begin() + 1, "sleep:2000");
  });
  expect_told(job, {0, 1}, {"for ranks 2, 3 (2 of 4 here)"});
  job.rank(0).send(SIGSTOP);
  expect_told(job, {1}, {"for the root, rank 0, at 127.0.0.1:29500", "does not say for whom it waits; it is stopped"});
  expect_told(job, {2, 3}, {"for the root, rank 0, at 127.0.0.1:29500", "no answer yet"});
}

TEST_F(Waiting, ForARankThatIsStoppedWhileTheyConnectNamesIt) {
  Job job(kRanks, {"join"}, place(), kSoon, [](int rank, Program& program) {
    if (rank == 3) program.command.insert(program.command.begin() + 1, "sleep:2000");
  });
  expect_told(job, {0, 1, 2}, {"for rank 3 (3 of 4 here)"});
  job.rank(1).send(SIGSTOP);
  expect_told(job, {0, 2, 3}, {"though all ranks are here: rank 1 (", "stopped"});
}

TEST_F(Waiting, ForTheHandOutOfARankThatDoesNotRunSaysWhere) {
  Job job(kRanks, {"join"}, place(), kSoon, [](int rank, Program& program) {
    program.environment.erase("TUTTI_SECRET");
    if (rank == 0) program.command = {"sleep", "60"};
  });
  expect_told(job, {1, 2, 3}, {"rank 0 on this host (meeting place @tutti-", "it does not run, or as another user"});
}

TEST_F(Waiting, ForTheHandOutOfARankThatIsStoppedNamesItsProcess) {
  Job job(kRanks, {"join"}, place(), kSoon, [](int rank, Program& program) {
    program.environment.erase("TUTTI_SECRET");
    if (rank > 1) program.command.insert(program.command.begin() + 1, "sleep:2000");
  });
  expect_told(job, {0, 1}, {"for ranks 2, 3 (2 of 4 here)"});
  job.rank(0).send(SIGSTOP);
  expect_told(job, {2, 3},
              {"rank 0 on this host", "process " + std::to_string(job.rank(0).pid()) + " has this place", "stopped"});
}

// It has met the others and hangs in hwloc.
TEST_F(Waiting, ForARankThatHangsInItsSetUpNamesItAndWhetherItAnswers) {
  const std::string fifo = directory() + "/machine.xml";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  Job job(kRanks, {"name:blue", "join"}, place(), kSoon, [&](int rank, Program& program) {
    if (rank == 2) program.environment["HWLOC_XMLFILE"] = fifo;
  });
  expect_told(job, {0, 1, 3}, {"the set-up of \"blue\": rank 2 (", "looks at its machine", "ranks 0,1,3 wait"});
  job.rank(2).send(SIGSTOP);
  expect_told(job, {0, 1, 3}, {"the set-up of \"blue\": rank 2 (", "does not answer", "stopped"});
}

}  // namespace
}  // namespace tutti
