// The programs as a user starts them: alone, with threads, under mpirun.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace {

struct Outcome {
  int code;
  std::string text;
};

Outcome shell(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (const std::size_t bytes = std::fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, bytes);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

std::string program(const std::string& name) { return std::string(TUTTI_PERF_DIR) + "/" + name + "_perf"; }

// Open MPI refuses root and more ranks than cores unless told otherwise; others ignore these.
std::string mpirun(int processes) {
  return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
         "mpirun -n " +
         std::to_string(processes) + " ";
}

std::size_t rows(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find("\n  "); at != std::string::npos; at = text.find("\n  ", at + 1)) ++count;
  return count;
}

class Programs : public testing::TestWithParam<const char*> {};

TEST_P(Programs, RunUnderMpirunAndCheckEveryTypeAndRoot) {
  const Outcome outcome =
      shell(mpirun(2) + program(GetParam()) + " -b 0 -e 100000 -i 33333 -n 2 --single 2 -d all -o all -r all -T 60");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("# Out of bounds values : 0 OK"), std::string::npos);
  EXPECT_GE(rows(outcome.text), 4u * 14u) << "sizes and types";
}

TEST_P(Programs, RunAsThreadsWithBuffersThatPeersUseInPlace) {
  for (const std::string kind : {"library", "registered"}) {
    const Outcome outcome =
        shell(program(GetParam()) + " -t 3 -b 8 -e 1M -f 32 -n 2 --single 2 --buffers " + kind + " -r all -u 1 -T 60");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_NE(outcome.text.find("# Out of bounds values : 0 OK"), std::string::npos);
  }
}

TEST_P(Programs, RunOverTcp) {
  const Outcome outcome =
      shell("TUTTI_SHM_DISABLE=1 " + program(GetParam()) + " -t 3 -b 8 -e 1M -f 32 -n 3 --single 2 -r all -T 60");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("# Out of bounds values : 0 OK"), std::string::npos);
  EXPECT_NE(outcome.text.find("over tcp"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Perf, Programs,
                         testing::Values("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                         "alltoall", "gather", "scatter", "sendrecv"),
                         [](const auto& info) { return std::string(info.param); });

TEST(PerfFiles, AreWrittenByProcessesTimesThreads) {
  const std::string json_file = testing::TempDir() + "tutti_perf_programs.json";
  const std::string svg_file = testing::TempDir() + "tutti_perf_programs.svg";
  std::remove(json_file.c_str());
  const Outcome outcome = shell(mpirun(2) + program("all_reduce") + " -t 2 -b 8 -e 64 -f 2 -n 2 -T 60 -J " + json_file +
                                " --plot " + svg_file);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const auto json = nlohmann::json::parse(std::ifstream(json_file));
  std::set<int> pids;
  int ranks = 0;
  for (const auto& device : json["config"]["devices"]) {
    EXPECT_EQ(device["rank"], ranks++);
    pids.insert(device["pid"].get<int>());
  }
  EXPECT_EQ(ranks, 4);
  EXPECT_EQ(pids.size(), 2u);
  EXPECT_EQ(json["results"].size(), 4u);
  for (const auto& row : json["results"]) {
    EXPECT_GT(row["in_place"]["time_p50"].get<double>(), 0);
    EXPECT_LE(row["in_place"]["time_p05"].get<double>(), row["in_place"]["time_p99"].get<double>());
    EXPECT_NE(row["in_place"]["algorithm"], "");
    EXPECT_NE(row["in_place"]["transport"], "");
  }
  std::string svg;
  std::getline(std::ifstream(svg_file), svg);
  EXPECT_EQ(svg.find("<svg "), 0u);
  std::remove(json_file.c_str());
  std::remove(svg_file.c_str());
}

TEST(PerfPrograms, NeedNoLauncher) {
  const std::string run = program("all_reduce") + " -b 8 -e 64K -f 16 -n 2 --single 2 -T 60";
  for (const char* variables :
       {"export TUTTI_NRANKS=2 TUTTI_COMM_ID=127.0.0.1:29731; TUTTI_RANK=",
        "export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29732; RANK="}) {
    const std::string text(variables);
    const Outcome outcome =
        shell("(" + text + "1 " + run + " & " + text + "0 " + run + "; code=$?; wait $! || code=9; exit $code)");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_NE(outcome.text.find("# Out of bounds values : 0 OK"), std::string::npos) << outcome.text;
    EXPECT_NE(outcome.text.find("Rank  1"), std::string::npos) << outcome.text;
  }
}

TEST(PerfPrograms, BarriersAreTimedToo) {
  const Outcome outcome = shell(mpirun(2) + program("barrier") + " -b 8 -e 8 -n 2 -T 60");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(rows(outcome.text), 1u) << outcome.text;
}

TEST(PerfPrograms, BlocksAreAsSmallAsTheGranuleAllows) {
  const Outcome outcome = shell(program("all_gather") + " -t 2 -b 8 -e 8 -n 2 --granule 4 -T 60");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("           8             1     float"), std::string::npos) << outcome.text;
}

TEST(PerfPrograms, OneRankAloneWorks) {
  EXPECT_EQ(shell(program("all_reduce") + " -b 8 -e 8 -n 1").code, 0);
  const Outcome lonely = shell(program("sendrecv") + " -b 8 -e 8 -n 1");
  EXPECT_EQ(lonely.code, 1);
  EXPECT_NE(lonely.text.find("needs at least 2 ranks"), std::string::npos);
}

TEST(PerfPrograms, ManyMoreRanksThanCoresGetOn) {
  // From a size that leaves the rings half full to one whose messages need all of them.
  const Outcome outcome = shell(program("all_reduce") + " -t 16 -b 256 -e 256K -f 32 -n 5 --single 5 -d int8 -T 60");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
}

TEST(PerfPrograms, FlagsThatAddColumnsAndRunsAddThem) {
  const Outcome outcome = shell(program("all_reduce") +
                                " -t 2 -b 8 -e 64 -f 8 -n 3 -m 2 -N 2 -M 1 -S 1 -I 1 -K 1 -C 1 -z 1 -a 3 --single 0");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const char* part : {"cputime", "i_p99", "timestamp", "Blocking Enabled", "# Memory usage", ": 0 OK"}) {
    EXPECT_NE(outcome.text.find(part), std::string::npos) << "no " << part << " in " << outcome.text;
  }
  EXPECT_EQ(rows(outcome.text), 4u) << "two sizes, two cycles: " << outcome.text;
}

TEST(PerfPrograms, AMinimumBandwidthThatIsMissedFails) {
  const Outcome slow = shell("NCCL_TESTS_MIN_BW=1e9 " + program("all_reduce") + " -t 2 -b 8 -e 8 -n 1");
  EXPECT_EQ(slow.code, 5);
  EXPECT_NE(slow.text.find("FAILED"), std::string::npos);
}

TEST(PerfPrograms, ARootThatDoesNotExistIsRefused) {
  const Outcome refused = shell(program("broadcast") + " -t 2 -b 8 -e 8 -r 2");
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.text.find("the ranks are 0 to 1"), std::string::npos);
}

}  // namespace
