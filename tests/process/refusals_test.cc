// Ranks that were started wrongly: each says once what is wrong, within the time that it was given.

#include "process/job.h"

namespace tutti {
namespace {

class Refusals : public ProcessTest {
 protected:
  // One error, in one line, with this code; returns its text.
  static std::string only_error(const ChildProcess& process, const std::string& code) {
    const ToldError told = told_error(process);
    EXPECT_EQ(told.code, code) << process.text();
    EXPECT_EQ(count_lines(process.text(), "error "), 1) << process.text();
    return told.message;
  }

  // Whether a rank that waited was told so; or came so late that the root had already given up.
  static bool told_or_late(const ChildProcess& process, const std::string& what) {
    const ToldError told = told_error(process);
    return contains(told.message, what) ||
           (told.code == "timeout" && contains(told.message, "could not reach the root"));
  }

  // A single rank whose variables are wrong.
  std::string refusal(const Environment& variables, const std::string& code = "invalid setting") {
    const long long start = now_ms();
    ChildProcess process({.command = worker({"join"}), .environment = variables, .place = place()});
    EXPECT_TRUE(process.wait(seconds(20))) << process.text();
    EXPECT_EQ(process.code(), 3) << process.text();
    EXPECT_LT(now_ms() - start, 15'000);
    return only_error(process, code);
  }

  // By hand, with one variable changed.
  static Environment changed(const std::string& variable, const std::string& value, int rank = 1, int ranks = 3) {
    Environment variables = by_hand(rank, ranks);
    variables[variable] = value;
    return variables;
  }
};

TEST_F(Refusals, NameTheVariableThatIsWrong) {
  EXPECT_TRUE(contains(refusal({{"SLURM_NTASKS", "2"}}), "TUTTI_RANK and TUTTI_NRANKS"));
  Environment incomplete = by_hand(0, 3);
  incomplete.erase("TUTTI_RANK");
  EXPECT_TRUE(contains(refusal(incomplete), "TUTTI_RANK"));
  EXPECT_TRUE(contains(refusal(changed("TUTTI_RANK", "3")), "TUTTI_RANK=3"));
  EXPECT_TRUE(contains(refusal(changed("TUTTI_RANK", "-1")), "TUTTI_RANK=-1"));
  EXPECT_TRUE(contains(refusal(changed("TUTTI_RANK", "three")), "TUTTI_RANK=three"));
  EXPECT_TRUE(contains(refusal(changed("TUTTI_NRANKS", "0")), "TUTTI_NRANKS=0"));
  EXPECT_TRUE(contains(refusal(changed("TUTTI_COMM_ID", "no address")), "TUTTI_COMM_ID"));
  EXPECT_TRUE(contains(refusal(changed("TUTTI_COMM_ID", "127.0.0.1:70000")), "TUTTI_COMM_ID"));
  EXPECT_TRUE(contains(refusal(changed("TUTTI_SECRET", "short")), "TUTTI_SECRET"));
  EXPECT_TRUE(contains(refusal(changed("TUTTI_SILENCE", "never")), "TUTTI_SILENCE=never"));
  EXPECT_TRUE(contains(refusal(changed("TUTTI_ALGO", "quick", 0, 1)), "quick"));
}

TEST_F(Refusals, NameTheSettingsThatMustAgree) {
  Job job(2, {"join"}, place(), {{"TUTTI_MEET_TIMEOUT", "10"}}, [](int rank, Program& program) {
    if (rank == 1) program.environment["TUTTI_CHANNELS"] = "3";
  });
  job.all_ended(3);
  for (int rank = 0; rank < 2; ++rank) {
    const std::string message = only_error(job.rank(rank), "mismatch");
    EXPECT_TRUE(contains(message, "rank 1") && contains(message, "TUTTI_CHANNELS=3")) << rank << ": " << message;
  }
}

TEST_F(Refusals, OfADeadRootComeAtTheDeadline) {
  const long long start = now_ms();
  const std::string message = refusal(changed("TUTTI_MEET_TIMEOUT", "3"), "timeout");
  EXPECT_TRUE(contains(message, "127.0.0.1:29500") && contains(message, "TUTTI_MEET_TIMEOUT")) << message;
  EXPECT_GE(now_ms() - start, 2'900);
}

TEST_F(Refusals, OfAMissingRankNameIt) {
  Job job(3, {"join"}, place(), {{"TUTTI_MEET_TIMEOUT", "3"}}, [](int rank, Program& program) {
    if (rank == 1) program.command = {"true"};
  });
  job.all_ended(3, {1});
  for (const int rank : {0, 2}) {
    const std::string message = only_error(job.rank(rank), "timeout");
    EXPECT_TRUE(contains(message, "rank 1") || contains(message, "ranks 1")) << rank << ": " << message;
  }
}

TEST_F(Refusals, OfTwoRanksWithOneNumberReachAll) {
  Job job(5, {"join"}, place(), {{"TUTTI_MEET_TIMEOUT", "5"}}, [](int rank, Program& program) {
    program.environment["TUTTI_NRANKS"] = "4";
    if (rank == 4) program.environment["TUTTI_RANK"] = "3";
    // So that not all that are needed have met before the fifth comes.
    if (rank == 2) program.command.insert(program.command.begin() + 1, "sleep:1500");
  });
  job.all_ended(3);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(count_lines(job.rank(rank).text(), "error "), 1) << job.rank(rank).text();
    EXPECT_TRUE(told_or_late(job.rank(rank), "rank 3")) << job.rank(rank).text();
  }
  EXPECT_TRUE(contains(told_error(job.rank(0)).message, "rank 3")) << job.rank(0).text();
}

TEST_F(Refusals, OfDifferentNumbersOfRanksNameBoth) {
  Job job(3, {"join"}, place(), {{"TUTTI_MEET_TIMEOUT", "5"}}, [](int rank, Program& program) {
    if (rank == 2) program.environment["TUTTI_NRANKS"] = "4";
  });
  job.all_ended(3);
  const std::string message = only_error(job.rank(2), "mismatch");
  EXPECT_TRUE(contains(message, "3") && contains(message, "4")) << message;
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(told_or_late(job.rank(rank), "rank 2")) << job.rank(rank).text();
  }
}

TEST_F(Refusals, OfAnotherSecretReachTheRankThatHasIt) {
  Job job(3, {"join"}, place(), {{"TUTTI_MEET_TIMEOUT", "5"}}, [](int rank, Program& program) {
    if (rank == 2) program.environment["TUTTI_SECRET"] = "the secret of another job";
  });
  job.all_ended(3);
  const std::string message = only_error(job.rank(2), "unauthorized");
  EXPECT_TRUE(contains(message, "TUTTI_SECRET") || contains(message, "secret")) << message;
  EXPECT_FALSE(contains(job.rank(2).text(), "the secret of another job"));
  for (const int rank : {0, 1}) {
    const std::string waiting = told_error(job.rank(rank)).message;
    EXPECT_TRUE(contains(waiting, "rank 2") || contains(waiting, "ranks 2")) << job.rank(rank).text();
  }
}

TEST_F(Refusals, F02OfAnUnknownInterfaceComeFromTheRankThatNamedIt) {
  Job job(2, {"join"}, place(), {{"TUTTI_MEET_TIMEOUT", "4"}}, [](int rank, Program& program) {
    if (rank == 1) program.environment["TUTTI_SOCKET_IFNAME"] = "nope0";
  });
  job.all_ended(3);
  const std::string message = only_error(job.rank(1), "invalid setting");
  EXPECT_TRUE(contains(message, "nope0") && contains(message, "lo")) << message << " does not list what exists";
  EXPECT_TRUE(contains(told_error(job.rank(0)).message, "rank 1") ||
              contains(told_error(job.rank(0)).message, "ranks 1"))
      << job.rank(0).text();
}

}  // namespace
}  // namespace tutti
