// A rank gives up while a peer does not answer.

#include <signal.h>

#include <fstream>
#include <string>

#include "process/job.h"
#include "process/ways.h"

namespace tutti {
namespace {

class AbortOver : public ProcessTest, public testing::WithParamInterface<Way> {};

// Rank 2 is stopped: its kernel still answers, itself it does nothing.
TEST_P(AbortOver, F58NeedsNobodyWhoIsStopped) {
  constexpr int kRanks = 4;
  constexpr int kStopped = 2;
  for (const char* wait : {"barrier", "recv:2", "send:2"}) {
    const std::string when = directory() + "/" + wait;
    Job job(kRanks, {"name:blue", "join", "calls:3", "say:here", wait}, place(), {}, [&](int rank, Program& program) {
      program.environment.merge(GetParam().variables(rank));
      if (rank == kStopped) program.command.back() = "sleep:60000";
      if (rank == 0) program.command.insert(program.command.end() - 1, "abort_when:" + when);
    });
    ASSERT_TRUE(job.all_said("here"));
    job.rank(kStopped).stop();
    std::ofstream(when) << "now\n";
    if (!job.all_ended(3, {kStopped})) return;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kStopped) continue;
      const ChildProcess& process = job.rank(rank);
      const ToldError told = told_error(process);
      EXPECT_EQ(told.code, rank == 0 ? "aborted" : "remote failure") << process.text();
      EXPECT_TRUE(contains(told.message, "the operator said so")) << process.text();
      const std::string left = process.line("destroyed after=");
      ASSERT_FALSE(left.empty()) << process.text();
      EXPECT_LT(std::stoi(left), 10'000) << process.text();  // promised: 2 s
    }
    job.rank(kStopped).send(SIGKILL);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, AbortOver, testing::ValuesIn(kWays), name_of_way);

}  // namespace
}  // namespace tutti
