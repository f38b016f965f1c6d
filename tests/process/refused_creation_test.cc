// The kernel refuses one rank one system call of those that making a communicator takes, each in turn; or one
// allocation fails. The call may be one that a rank can do without. Otherwise it throws an Error, the others are told,
// and its process is as before.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "process/refused_rank.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int kRanks = 2;
constexpr double kSoonSeconds = 5;
constexpr int kAllocations = 800;  // about so many make a communicator

// What the kernel says where it has no more of something, or does not want.
int usual_error(int call) {
  switch (call) {
    case SYS_mmap:
    case SYS_brk:
    case SYS_mprotect:
    case SYS_mremap:
    case SYS_madvise:
      return ENOMEM;
    default:
      return EPERM;
  }
}

// hwloc leaves a directory open that it cannot have closed on exec, or that fdopendir() cannot look at.
bool leaves_descriptors(int call) { return call == SYS_fcntl || call == SYS_fstat || call == SYS_newfstatat; }

unsigned seed() {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
}

bool is_soak() { return std::getenv("TUTTI_TEST_SOAK") != nullptr; }

class RefusedCreation : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const auto reason = Namespace::refusal()) GTEST_SKIP() << *reason;
    if (!RefusedCalls::possible()) GTEST_SKIP() << "this kernel hands no system calls to a filter's listener";
    sandbox_ =
        std::make_unique<Namespace>(CLONE_NEWNET | CLONE_NEWNS, "ip link set lo up; mount -t tmpfs tmpfs /dev/shm");
  }

  // It works or is an Error, for all alike.
  void expect_an_end(const std::vector<RankTale>& tales, const std::string& what) const {
    for (const RankTale& tale : tales) {
      const std::string where = fmt::format("{}:\n{}TUTTI_TEST_SEED={}", what, to_text(tales), seed_);
      ASSERT_TRUE(tale.told) << where;
      EXPECT_FALSE(tale.wrong) << where;
      EXPECT_TRUE(tale.same_signals) << "other signals are blocked afterwards: " << where;
      EXPECT_EQ(tale.more_threads, 0) << where;
      EXPECT_EQ(tale.created, tales.front().created) << where;
    }
  }

  // Everybody has it, or everybody has an Error.
  void expect_all_know(const std::vector<RankTale>& tales, int refused, const std::string& what,
                       bool leaves_descriptors = false) const {
    const std::string told = to_text(tales);
    bool all_created = true;
    for (const RankTale& tale : tales) all_created = all_created && tale.created;
    for (int rank = 0; rank < static_cast<int>(tales.size()); ++rank) {
      const RankTale& tale = tales[static_cast<std::size_t>(rank)];
      const std::string where = fmt::format("{}, rank {} of:\n{}TUTTI_TEST_SEED={}", what, rank, told, seed_);
      ASSERT_TRUE(tale.told) << where;
      EXPECT_FALSE(tale.wrong) << where;
      EXPECT_TRUE(tale.same_signals) << "other signals are blocked afterwards: " << where;
      EXPECT_EQ(tale.more_threads, 0) << where;
      if (!leaves_descriptors) {
        EXPECT_EQ(tale.more_descriptors, 0) << where;
      }
      if (all_created) continue;
      EXPECT_FALSE(tale.created) << where;
      EXPECT_NE(tale.code, static_cast<int>(ErrorCode::kTimeout)) << where;
      EXPECT_LT(tale.ended_at, tales[static_cast<std::size_t>(refused)].ended_at + kSoonSeconds) << where;
    }
  }

  const unsigned seed_ = seed();
  std::mt19937 random_{seed_};
  std::unique_ptr<Namespace> sandbox_;
};

// Numbers of calls to refuse, of so many: the first, and another one; all in a soak.
std::vector<int> chosen(int count, std::mt19937& random) {
  std::vector<int> numbers;
  if (is_soak()) {
    for (int nth = 1; nth <= count; ++nth) numbers.push_back(nth);
    return numbers;
  }
  numbers.push_back(1);
  if (count > 1) numbers.push_back(std::uniform_int_distribution<int>(2, count)(random));
  return numbers;
}

TEST_P(RefusedCreation, OfAnySystemCallReachesAllRanks_B2) {
  const int refused = GetParam();
  const std::vector<RankTale> traced = run_ranks_with(*sandbox_, kRanks, {.rank = refused});
  expect_all_know(traced, refused, "nothing refused");
  const auto& counts = traced[static_cast<std::size_t>(refused)].counts;
  ASSERT_GT(counts[SYS_socket], 0) << "nothing was counted";
  for (int call = 0; call < static_cast<int>(counts.size()); ++call) {
    if (counts[static_cast<std::size_t>(call)] == 0) continue;
    for (const int nth : chosen(counts[static_cast<std::size_t>(call)], random_)) {
      const RankPlan plan{.rank = refused, .refusal = {call, nth, usual_error(call)}};
      const std::string what = fmt::format("system call {} #{} is refused to rank {}", call, nth, refused);
      expect_all_know(run_ranks_with(*sandbox_, kRanks, plan), refused, what, leaves_descriptors(call));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(RefusedCreation, OfAnyAllocationEndsInAnError_B2) {
  const int refused = GetParam();
  constexpr int kSamples = 24;
  std::uniform_int_distribution<int> step(1, is_soak() ? 1 : 2 * kAllocations / kSamples);
  for (int nth = step(random_);; nth += step(random_)) {
    const auto tales = run_ranks_with(*sandbox_, kRanks, {.rank = refused, .allocation = nth});
    expect_an_end(tales, fmt::format("allocation {} of rank {} fails", nth, refused));
    if (HasFatalFailure() || !tales[static_cast<std::size_t>(refused)].refused) return;  // there were fewer
  }
}

INSTANTIATE_TEST_SUITE_P(Rank, RefusedCreation, testing::Values(0, 1));

}  // namespace
}  // namespace tutti
