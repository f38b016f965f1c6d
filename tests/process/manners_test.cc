// What a library must not do to the process that uses it: stop it at a log line, use its standard streams' numbers,
// take its signals, change its limits.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "process/job.h"

namespace tutti {
namespace {

class Manners : public ProcessTest {};

// Standard error becomes a pipe that is full already, or whose reader is gone.
void spoil_standard_error(bool full) {
  int ends[2];
  if (::pipe(ends) != 0) return;
  if (full) {
    ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (::write(ends[1], "x", 1) == 1) {
    }
    ::fcntl(ends[1], F_SETFL, 0);
  } else {
    ::close(ends[0]);
  }
  ::dup2(ends[1], STDERR_FILENO);
}

TEST_F(Manners, StandardErrorThatNobodyReadsHoldsNoRank_F88) {
  for (const bool full : {true, false}) {
    Job job(2, {"join", "sums:1000", "calls:20", "destroy"}, place(),
            {{"TUTTI_DEBUG", "debug"}, {"TUTTI_SHM_DISABLE", "1"}}, [full](int rank, Program& program) {
              if (rank == 1) program.prepare = [full] { spoil_standard_error(full); };
            });
    EXPECT_TRUE(job.all_ended(0)) << (full ? "full" : "closed");
  }
}

// The control thread writes the line about a stall. It must go on with its heartbeats.
TEST_F(Manners, AStallLineThatNobodyReadsSilencesNoRank_F88) {
  for (const bool full : {true, false}) {
    Job job(2, {"join", "sums:100"}, place(), {{"TUTTI_STALL_WARNING", "1"}, {"TUTTI_SILENCE", "2"}},
            [full](int rank, Program& program) {
              if (rank == 1) program.command.push_back("sleep:4000");
              program.command.insert(program.command.end(), {"barrier", "destroy"});
              if (rank == 0) program.prepare = [full] { spoil_standard_error(full); };
            });
    EXPECT_TRUE(job.all_ended(0)) << (full ? "full" : "closed");
  }
}

TEST_F(Manners, StandardStreamsThatAreClosedStayClosed_F87) {
  for (const char* disable : {"0", "1"}) {
    Job job(2, {"join", "sums:20000", "split:half:0", "standard_closed", "destroy"}, place(),
            {{"TUTTI_SHM_DISABLE", disable}, {"TUTTI_DEBUG", "debug"}}, [](int, Program& program) {
              program.prepare = [] {
                for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::close(fd);
              };
            });
    EXPECT_TRUE(job.all_ended(0));
  }
}

// As a daemon does once it is set up. What it prints afterwards must not reach another rank.
TEST_F(Manners, StandardStreamsThatAreClosedLaterStayClosed_F87) {
  for (const char* disable : {"0", "1"}) {
    Job job(2, {"join", "close_standard", "sums:20000", "split:half:0", "standard_closed", "sums:100", "destroy"},
            place(), {{"TUTTI_SHM_DISABLE", disable}});
    EXPECT_TRUE(job.all_ended(0));
  }
}

std::string status_of(pid_t pid, const std::string& field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return line.substr(line.find_first_not_of(" \t", field.size() + 1));
  }
  return "";
}

TEST_F(Manners, SignalsAreTheProgramsUnlessItAsks_F85) {
  Job job(2, {"join", "say:ready", "sleep:60000"}, place());
  ASSERT_TRUE(job.all_said("ready"));
  // None is caught, not even by a handler that does nothing.
  for (int rank = 0; rank < 2; ++rank) {
    const auto caught = std::stoull(status_of(job.rank(rank).pid(), "SigCgt"), nullptr, 16);
    EXPECT_EQ(caught & 0x7fffffff, 0u) << "of the signals up to 31; the C library has some of its own beyond";
    job.rank(rank).send(SIGUSR1);
  }
  EXPECT_TRUE(job.all_ended(128 + SIGUSR1));
}

// A program that waits for the signal has it blocked in all threads; no thread of the library may take it.
TEST_F(Manners, ASignalThatTheProgramBlocksStaysPending_F85) {
  Job job(2, {"join", "say:ready", "sleep:1500", "sums:100", "destroy", "say:left", "sleep:60000"}, place(), {},
          [](int, Program& program) {
            program.prepare = [] {
              sigset_t blocked;
              sigemptyset(&blocked);
              sigaddset(&blocked, SIGUSR1);
              ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
            };
          });
  ASSERT_TRUE(job.all_said("ready"));
  for (int rank = 0; rank < 2; ++rank) job.rank(rank).send(SIGUSR1);
  ASSERT_TRUE(job.all_said("left"));
  for (int rank = 0; rank < 2; ++rank) {
    const auto pending = std::stoull(status_of(job.rank(rank).pid(), "ShdPnd"), nullptr, 16);
    EXPECT_TRUE((pending >> (SIGUSR1 - 1)) & 1) << "rank " << rank << " lost its signal";
  }
}

// The soft limit on descriptors, as `ulimit -Sn` of a child of this process would print it.
std::string soft_limit(pid_t pid) {
  std::ifstream limits("/proc/" + std::to_string(pid) + "/limits");
  for (std::string line; std::getline(limits, line);) {
    if (line.starts_with("Max open files")) return line.substr(26, line.find(' ', 26) - 26);
  }
  return "";
}

TEST_F(Manners, TheLimitOnDescriptorsIsRaisedNoFurtherThanNeeded_F95) {
  for (const rlim_t soft : {rlim_t{1024}, rlim_t{16}}) {
    Job job(2, {"join", "sums:1000", "say:ready", "fork_sleeper:60000", "say:forked", "sleep:60000"}, place(),
            {{"TUTTI_SHM_DISABLE", "1"}}, [soft](int, Program& program) {
              program.prepare = [soft] {
                const rlimit limit{soft, 20'000};
                ::setrlimit(RLIMIT_NOFILE, &limit);
              };
            });
    ASSERT_TRUE(job.all_said("forked"));
    for (int rank = 0; rank < 2; ++rank) {
      const pid_t pid = job.rank(rank).pid();
      const int now = std::stoi(soft_limit(pid));
      if (soft == 1024) {
        EXPECT_EQ(now, 1024);
      } else {
        EXPECT_GT(now, 16);
        EXPECT_LT(now, 512);
      }
      std::ifstream children("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
      pid_t child = 0;
      ASSERT_TRUE(children >> child);
      // The child is there before it has run what is to run in it first.
      const long long give_up = now_ms() + 30'000;
      while (soft_limit(child) != std::to_string(soft) && now_ms() < give_up) {
        std::this_thread::sleep_for(milliseconds(5));
      }
      EXPECT_EQ(soft_limit(child), std::to_string(soft));
    }
  }
}

}  // namespace
}  // namespace tutti
