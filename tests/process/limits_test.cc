// What a sandbox, an old kernel or a limit refuses for good: a rank does without it, or says what to do and tells the
// others.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "base/held_signals.h"
#include "base/whole_file.h"
#include "process/refused_rank.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

constexpr rlim_t kSmallFile = 64 * 1024;

void limit_files() {
  const rlimit limit{kSmallFile, kSmallFile};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

// Runs it in a process of its own, with the limits that it sets; returns "", or what went wrong.
std::string in_a_process(const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string trouble;
    try {
      trouble = work();
    } catch (const std::exception& exception) {
      trouble = std::string("threw ") + exception.what();
    }
    static_cast<void>(!::write(ends[1], trouble.data(), trouble.size()));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string trouble(4096, '\0');
  const ssize_t got = ::read(ends[0], trouble.data(), trouble.size());
  trouble.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("ended by {}", ::strsignal(WTERMSIG(status)));
  return trouble;
}

class Limits : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = Namespace::refusal()) GTEST_SKIP() << *reason;
    if (!RefusedCalls::possible()) GTEST_SKIP() << "this kernel hands no system calls to a filter's listener";
    sandbox_ =
        std::make_unique<Namespace>(CLONE_NEWNET | CLONE_NEWNS, "ip link set lo up; mount -t tmpfs tmpfs /dev/shm");
  }

  // With rank 0 or rank 1 refused, all ranks get a communicator with right results.
  void expect_all_do_without(RankPlan plan, const std::string& what) {
    for (plan.rank = 0; plan.rank < 2; ++plan.rank) {
      const auto tales = run_ranks_with(*sandbox_, 3, plan);
      for (const RankTale& tale : tales) {
        EXPECT_TRUE(tale.created) << what << " on rank " << plan.rank << ":\n" << to_text(tales);
      }
    }
  }

  std::unique_ptr<Namespace> sandbox_;
};

TEST_F(Limits, OnFilesEndNoRank_F89) {
  RankPlan plan;
  plan.prepare = [](int) { limit_files(); };
  expect_all_do_without(plan, "ulimit -f");
}

TEST_F(Limits, OnFilesEndNoProgramThatAllocates_F89) {
  EXPECT_EQ(in_a_process([]() -> std::string {
              const UniqueId id = UniqueId::create();
              Communicator world = Communicator::create(id, 0, 1);
              limit_files();
              void* const memory = allocate(std::size_t{64} << 20);
              std::memset(memory, 1, std::size_t{64} << 20);
              deallocate(memory);
              std::vector<char> own(1 << 20, 7);
              const Registration registration = register_memory(own.data(), own.size());
              for (const char c : own) {
                if (c != 7) return "registered memory has changed";
              }
              return "";
            }),
            "");
}

TEST_F(Limits, OnFilesEndNoProgramThatWritesReports_F89) {
  EXPECT_EQ(in_a_process([]() -> std::string {
              limit_files();
              const std::string large(2 * kSmallFile, 'x');
              const int error = write_whole_file(testing::TempDir(), "tutti-too-large", large);
              if (error != EFBIG) return fmt::format("error {} instead of EFBIG", error);
              sigset_t pending;
              ::sigpending(&pending);
              return sigismember(&pending, SIGXFSZ) == 1 ? "the signal is left behind" : "";
            }),
            "");
}

TEST_F(Limits, OnSharedMemoryLeaveTcp_F90) {
  for (const int error : {ENOSYS, EPERM, EACCES, EINVAL}) {
    expect_all_do_without({.refusal = {SYS_memfd_create, 0, error}}, fmt::format("memfd_create fails with {}", error));
  }
}

TEST_F(Limits, OnWhatOnlySavesTimeAreNoTrouble_F90) {
  for (const int call : {SYS_membarrier, SYS_sched_setaffinity, SYS_sched_getaffinity, SYS_get_mempolicy, SYS_mbind,
                         SYS_fallocate, SYS_getrandom, SYS_timerfd_create, SYS_prlimit64, SYS_madvise}) {
    expect_all_do_without({.refusal = {call, 0, EPERM}}, fmt::format("system call {}", call));
  }
  expect_all_do_without({.refusal = {SYS_membarrier, 0, ENOSYS}}, "no membarrier");
}

TEST_F(Limits, OnSharedMemoryLetMemoryBeAllocated_F90) {
  EXPECT_EQ(in_a_process([]() -> std::string {
              auto& calls = *new RefusedCalls({SYS_memfd_create, 0, EPERM});
              calls.begin();
              auto* const memory = static_cast<char*>(allocate(1 << 20));
              memory[1] = 1;
              deallocate(memory);
              std::vector<char> own(1 << 20, 7);
              const Registration registration = register_memory(own.data(), own.size());
              return own[5000] == 7 ? "" : "registered memory has changed";
            }),
            "");
}

// The n-th thread that a rank starts while it makes its communicator.
TEST_F(Limits, OnThreadsAreToldToAllRanks_F91) {
  for (const int refused : {0, 1}) {
    for (const int nth : {0, 1, 2, 3}) {
      const RankPlan plan{.rank = refused, .refusal = {SYS_clone3, nth, EPERM}};
      const auto tales = run_ranks_with(*sandbox_, 2, plan);
      const std::string told = fmt::format("thread {} of rank {}:\n{}", nth, refused, to_text(tales));
      const RankTale& tale = tales[static_cast<std::size_t>(refused)];
      const RankTale& other = tales[static_cast<std::size_t>(1 - refused)];
      for (const RankTale& one : tales) {
        ASSERT_TRUE(one.told) << told;
        EXPECT_FALSE(one.wrong) << told;
        EXPECT_TRUE(one.same_signals) << told;
        EXPECT_EQ(one.more_threads, 0) << told;
      }
      EXPECT_EQ(tale.created, other.created) << told;
      if (tale.created) continue;
      EXPECT_EQ(tale.code, static_cast<int>(ErrorCode::kSystem)) << told;
      for (const char* word : {"cannot start a thread", "EPERM", "ulimit -u", "pids.max", "seccomp"}) {
        EXPECT_NE(std::strstr(tale.text, word), nullptr) << word << ": " << told;
      }
      EXPECT_EQ(other.code, static_cast<int>(ErrorCode::kRemote)) << told;
      EXPECT_EQ(other.peer, refused) << told;
      EXPECT_NE(std::strstr(other.text, "cannot start a thread"), nullptr) << told;
      EXPECT_LT(other.ended_at, tale.ended_at + 5) << told;
    }
  }
}

TEST_F(Limits, OnThreadsLeaveStreamsAndGroupsUsable_F91) {
  EXPECT_EQ(in_a_process([]() -> std::string {
              Communicator world = Communicator::create(UniqueId::create(), 0, 1);
              HostStream stream;
              auto& calls = *new RefusedCalls({SYS_clone3, 1, EAGAIN});
              calls.begin();
              int x = 1;
              try {
                world.all_reduce(&x, &x, 1, DataType::kI32, kSum, stream).wait();
                return "the stream had its thread";
              } catch (const Error& error) {
                if (error.code() != ErrorCode::kSystem) return error.what();
              }
              world.all_reduce(&x, &x, 1, DataType::kI32, kSum, stream).wait();
              Group group;
              const auto part = world.split(0, 0);
              group.end();
              return x == 1 && part->ranks() == 1 ? "" : "wrong";
            }),
            "");
}

}  // namespace
}  // namespace tutti
