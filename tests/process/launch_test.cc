// How ranks come to know who they are and where they meet.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "process/job.h"

namespace tutti {
namespace {

const std::vector<std::string> kWholeLife = {"join", "report", "sums:2000", "destroy", "descriptors"};

class Launch : public ProcessTest {
 protected:
  static bool is_there(const std::string& program) {
    return std::system(("command -v " + program + " >/dev/null").c_str()) == 0;
  }

  // Runs a launcher that starts three ranks, which all must come to a good end.
  void run_under(const std::vector<std::string>& launcher, const Environment& environment = {}) {
    std::vector<std::string> command = launcher;
    for (const std::string& word : worker(kWholeLife)) command.push_back(word);
    const Ended ended = run_program({.command = command, .environment = environment, .place = place()}, kPatience);
    EXPECT_EQ(ended.code, 0) << ended.text;
    EXPECT_EQ(count_lines(ended.text, "sums right"), 3) << ended.text;
    for (const char* line : {"rank 0 of 3", "rank 1 of 3", "rank 2 of 3"}) {
      EXPECT_EQ(count_lines(ended.text, line), 1) << ended.text;
    }
    EXPECT_EQ(count_lines(ended.text, "hosts 1"), 3) << ended.text;
  }

  // Three ranks with these variables instead of those by hand.
  void run_with(const std::function<Environment(int rank)>& variables, const std::string& hosts = "hosts 1") {
    Job job(3, kWholeLife, place(), {}, [&](int rank, Program& program) { program.environment = variables(rank); });
    job.all_ended(0);
    job.all_said("sums right");
    job.all_said(hosts);
  }
};

TEST_F(Launch, WorksUnderOpenMpi) {
  if (!is_there("mpirun") || std::system("mpirun --version 2>&1 | grep -q 'Open MPI'") != 0) {
    GTEST_SKIP() << "there is no mpirun of Open MPI";
  }
  run_under({"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3"});
}

TEST_F(Launch, WorksUnderHydra) {
  if (!is_there("mpiexec.hydra")) GTEST_SKIP() << "there is no mpiexec.hydra of MPICH";
  run_under({"mpiexec.hydra", "-n", "3"});
}

TEST_F(Launch, WorksByHandWithHostAndPort) {
  run_with([](int rank) { return by_hand(rank, 3); });
}

TEST_F(Launch, WorksByHandWithoutASecretOnOneHost) {
  run_with([](int rank) {
    Environment variables = by_hand(rank, 3);
    variables.erase("TUTTI_SECRET");
    return variables;
  });
}

TEST_F(Launch, WorksOverIpv6Loopback) {
  run_with([](int rank) { return by_hand(rank, 3, "[::1]"); });
}

TEST_F(Launch, F10WorksByNameWhateverTheNameResolvesTo) {
  run_with([](int rank) { return by_hand(rank, 3, "localhost"); });
}

Environment torchrun(int rank) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", "3"},
          {"LOCAL_WORLD_SIZE", "3"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", kMeetingPort}};
}

TEST_F(Launch, WorksWithTorchrunsVariables) { run_with(torchrun); }

TEST_F(Launch, WorksBesideTorchrunsStore) {
  ChildProcess store({.command = worker({std::string("listen:") + kMeetingPort}), .place = place()});
  ASSERT_TRUE(store.wait_for_line("listening", kPatience)) << store.text();
  run_with([](int rank) {
    Environment variables = torchrun(rank);
    variables.merge(Environment{{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "run"}});
    return variables;
  });
}

TEST_F(Launch, WorksWithSlurmsVariables) {
  run_with([](int rank) {
    return Environment{{"SLURM_PROCID", std::to_string(rank)},
                       {"SLURM_NTASKS", "3"},
                       {"SLURM_JOB_ID", "77"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_NUM_NODES", "1"}};
  });
}

TEST_F(Launch, WorksWithAnIdInAFile) {
  const std::string file = directory() + "/id";
  Job job(3, {}, place(), {}, [&](int rank, Program& program) {
    program.environment.clear();
    const std::string join = "join_id:" + std::to_string(rank) + ":3:" + file;
    program.command = worker({join, "sums:2000", "destroy", "descriptors"});
    if (rank == 0) program.command.insert(program.command.begin() + 1, "make_id:" + file);
  });
  job.all_ended(0);
}

TEST_F(Launch, F20AnIdServesOneCommunicator) {
  const std::string file = directory() + "/id";
  Job job(2, {}, place(), {{"TUTTI_MEET_TIMEOUT", "20"}}, [&](int rank, Program& program) {
    const std::string join = "join_id:" + std::to_string(rank) + ":2:" + file;
    program.command = worker({join, "calls:10", "destroy", join});
    if (rank == 0) program.command.insert(program.command.begin() + 1, "make_id:" + file);
  });
  job.all_ended(3);
  for (int rank = 0; rank < 2; ++rank) {
    // Whoever comes while the root of the first is still closing is told that all have met.
    const std::string message = told_error(job.rank(rank)).message;
    EXPECT_TRUE(contains(message, "id was used already") || contains(message, "a unique id serves one communicator"))
        << job.rank(rank).text();
  }
}

TEST_F(Launch, F18RanksWaitForARootThatStartsLate) {
  Job job(3, {"join", "calls:10", "destroy"}, place(), {}, [&](int rank, Program& program) {
    if (rank == 0) program.command.insert(program.command.begin() + 1, "sleep:2500");
  });
  job.all_ended(0);
}

TEST_F(Launch, F21ManyShortRunsOnOnePort) {
  const char* wish = std::getenv("TUTTI_TEST_SOAK");
  const int runs = wish != nullptr ? 200 : 40;
  for (int run = 0; run < runs && !HasFailure(); ++run) {
    Job job(3, {"join", "calls:3:" + std::to_string(run), "destroy"}, place());
    job.all_ended(0);
  }
}

// Both know the same secret and port; the launcher's identity of the job tells them apart.
TEST_F(Launch, F21ALateRankOfAnEarlierRunDoesNotDisturbTheNext) {
  const auto slurm = [](int rank, int job) {
    Environment variables = {{"SLURM_PROCID", std::to_string(rank)},
                             {"SLURM_NTASKS", "3"},
                             {"SLURM_JOB_ID", std::to_string(job)},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_STEP_NUM_NODES", "1"}};
    for (const char* name : {"TUTTI_COMM_ID", "TUTTI_SECRET"}) variables[name] = by_hand(rank, 3)[name];
    return variables;
  };
  for (int run = 1; run <= 3; ++run) {
    Environment late = slurm(2, run - 1);
    late["TUTTI_MEET_TIMEOUT"] = "2";
    ChildProcess stranger({.command = worker({"join"}), .environment = late, .place = place()});
    Job job(3, {"join", "calls:3", "sleep:200", "destroy"}, place(), {},
            [&](int rank, Program& program) { program.environment = slurm(rank, run); });
    job.all_ended(0);
    ASSERT_TRUE(stranger.wait(kPatience)) << stranger.text();
    EXPECT_EQ(stranger.code(), 3) << stranger.text();
  }
}

TEST_F(Launch, F19ARootThatWasKilledDoesNotKeepItsPlace) {
  for (const bool secret : {false, true}) {
    const auto adapt = [secret](int, Program& program) {
      if (!secret) program.environment.erase("TUTTI_SECRET");
    };
    for (int run = 0; run < 3; ++run) {
      {
        Job job(3, {"join", "sums:1000", "sleep:60000"}, place(), {}, adapt);
        ASSERT_TRUE(job.all_said("sums right"));
        job.rank(0).send(SIGKILL);
        job.all_ended(128 + SIGKILL, {1, 2});
      }
      Job again(3, {"join", "sums:1000", "destroy"}, place(), {}, adapt);
      again.all_ended(0);
    }
  }
}

TEST_F(Launch, F22InterruptedSystemCallsDoNoHarm) {
  for (const char* disable : {"0", "1"}) {
    Job job(3, {"timer:1000", "join", "calls:100", "sums:100000", "allocate:64", "destroy"}, place(),
            {{"TUTTI_SHM_DISABLE", disable}});
    job.all_ended(0);
  }
}

TEST_F(Launch, OfAProgramWithoutALauncherIsAWorldOfOneRank_B3) {
  for (const Environment& variables : {Environment{}, Environment{{"TUTTI_RANK", "0"}, {"TUTTI_NRANKS", "1"}}}) {
    ChildProcess alone(
        {.command = worker({"join", "sums:1000", "destroy"}), .environment = variables, .place = place()});
    ASSERT_TRUE(alone.wait(kPatience));
    EXPECT_EQ(alone.code(), 0) << alone.text();
    EXPECT_FALSE(contains(alone.text(), "WARN")) << alone.text();
  }
}

// Slurm's variables without srun, as an interactive shell of an allocation has them.
TEST_F(Launch, WaitingLinesSayWhereTheNumberOfRanksComesFrom_F86) {
  ChildProcess process({.command = worker({"join"}),
                        .environment = {{"SLURM_JOB_ID", "7"},
                                        {"SLURM_PROCID", "0"},
                                        {"SLURM_NTASKS", "8"},
                                        {"SLURM_NNODES", "1"},
                                        {"TUTTI_STALL_WARNING", "1"}},
                        .place = place()});
  EXPECT_TRUE(process.wait_for_text("SLURM_PROCID=0 and SLURM_NTASKS=8, which srun sets", kPatience)) << process.text();
}

// A program that a rank starts has the rank's variables, and waits for a job that has met already.
TEST_F(Launch, AHelperThatInheritsARanksVariablesIsToldSo_F86) {
  for (const int parent : {0, 1}) {
    Job job(2, {"join", "sums:100"}, place(), {}, [&](int rank, Program& program) {
      if (rank == parent) program.command.push_back("helper:TUTTI_STALL_WARNING=1 TUTTI_MEET_TIMEOUT=5");
      program.command.insert(program.command.end(), {"sums:100", "destroy"});
    });
    EXPECT_TRUE(job.all_ended(0));
    EXPECT_TRUE(contains(job.rank(parent).text(), "is a rank itself: this process has inherited its variables"))
        << job.rank(parent).text();
  }
}

// A proxy that answers in its own words as long as its target is not there.
TEST_F(Launch, AProxyThatAnswersForAMissingRootIsTriedAgain_F97) {
  if (!is_there("python3")) GTEST_SKIP() << "there is no python3 to play the proxy";
  const std::string proxy_text =
      "import socket, time\n"
      "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
      "s.bind(('127.0.0.1', " +
      std::string(kMeetingPort) +
      ")); s.listen(64); print('listening', flush=True)\n"
      "end = time.time() + 4\n"
      "while time.time() < end:\n"
      "  c, _ = s.accept(); c.sendall(b'HTTP/1.1 503 Service Unavailable\\r\\n\\r\\n'); c.close()\n";
  ChildProcess proxy({.command = {"python3", "-c", proxy_text}, .place = place()});
  ASSERT_TRUE(proxy.wait_for_line("listening", kPatience)) << proxy.text();
  const auto rank = [this](int number) {
    Environment variables = by_hand(number, 2);
    variables["TUTTI_STALL_WARNING"] = "1";
    return Program{.command = worker({"join", "sums:100", "destroy"}), .environment = variables, .place = place()};
  };
  ChildProcess one(rank(1));
  EXPECT_TRUE(one.wait_for_text("another program listens there, or a proxy", kPatience)) << one.text();
  // Longer than a refusal of the root would be doubted.
  ASSERT_TRUE(proxy.wait(kPatience));
  ChildProcess zero(rank(0));
  EXPECT_TRUE(zero.wait(kPatience) && one.wait(kPatience));
  EXPECT_EQ(zero.code(), 0) << zero.text();
  EXPECT_EQ(one.code(), 0) << one.text();
}

void limit_descriptors(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(Launch, F62RaisesALowLimitOfDescriptors) {
  Job job(6, {"join", "sums:1000", "destroy"}, place(), {{"TUTTI_SHM_DISABLE", "1"}},
          [](int, Program& program) { program.prepare = [] { limit_descriptors(10, 4096); }; });
  job.all_ended(0);
}

TEST_F(Launch, F62SaysWhatIsMissingWhenTheLimitCannotBeRaised) {
  Job job(6, {"join", "sums:1000", "destroy"}, place(), {{"TUTTI_SHM_DISABLE", "1"}, {"TUTTI_MEET_TIMEOUT", "5"}},
          [](int rank, Program& program) {
            if (rank == 1) program.prepare = [] { limit_descriptors(9, 9); };
          });
  job.all_ended(3);
  EXPECT_TRUE(contains(job.rank(1).text(), "EMFILE")) << job.rank(1).text();
}

// A firewall lets some ports in: ranks listen on those alone, and say when there are too few.
TEST_F(Launch, F92ListensOnTheGivenPorts) {
  for (const bool enough : {true, false}) {
    Job job(3, {"join", "sums:1000", "destroy"}, place(),
            {{"TUTTI_COMM_ID", "127.0.0.1:29500"}, {"TUTTI_PORTS", enough ? "29510-29512" : "29510-29511"}});
    job.all_ended(enough ? 0 : 3);
    for (int rank = 0; rank < 3 && !enough; ++rank) {
      EXPECT_TRUE(contains(job.rank(rank).text(), "no port of TUTTI_PORTS=29510-29511 is free"))
          << job.rank(rank).text();
    }
  }
}

// A network namespace as `unshare -n` leaves it: each rank says at once what is missing, whatever it was told.
TEST_F(Launch, F94WithoutLoopbackIsRefusedAtOnce) {
  const Namespace sandbox(CLONE_NEWNET, "true");
  const std::map<std::string, std::string> no_secret = {{"TUTTI_COMM_ID", "127.0.0.1:29500"}};
  const std::map<std::string, std::string> with_secret = {{"TUTTI_COMM_ID", "127.0.0.1:29500"},
                                                          {"TUTTI_SECRET", "0123456789abcdef0123"}};
  const std::map<std::string, std::string> named = {{"TUTTI_COMM_ID", "localhost:29500"}};
  for (const auto& environment : {no_secret, with_secret, named}) {
    Job job(2, {"join"}, &sandbox, environment);
    job.all_ended(3);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(contains(job.rank(rank).text(), "lo is down")) << job.rank(rank).text();
      EXPECT_FALSE(contains(job.rank(rank).text(), "WARN")) << job.rank(rank).text();
    }
  }
}

// With loopback, neither names nor IPv6 are missed.
TEST_F(Launch, F94NeedsNoNamesAndNoIpv6) {
  const Namespace sandbox(
      CLONE_NEWNET | CLONE_NEWNS,
      "ip link set lo up; mount -t tmpfs tmpfs /mnt; echo nameserver 192.0.2.1 > /mnt/resolv; "
      ": > /mnt/hosts; mount --bind /mnt/hosts /etc/hosts; mount --bind /mnt/resolv /etc/resolv.conf; "
      "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6");
  Job job(2, {"join", "sums:1000", "destroy"}, &sandbox, {{"TUTTI_COMM_ID", "127.0.0.1:29500"}});
  job.all_ended(0);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(contains(job.rank(rank).text(), "WARN")) << job.rank(rank).text();
  }
}

}  // namespace
}  // namespace tutti
