#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <random>

#include "processes.h"
#include "support/standard_error.h"

namespace tutti {
namespace {

// What the processes of a test tell each other: lies in shared memory.
struct Blackboard {
  std::atomic<int> here;
  std::atomic<int> told;
  std::atomic<bool> was_told[64];
  std::atomic<int> peers[64];
  char reasons[64][256];
};

class Death : public testing::Test {
 protected:
  Death() {
    board_ = static_cast<Blackboard*>(
        ::mmap(nullptr, sizeof(Blackboard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~Death() override { ::munmap(board_, sizeof(Blackboard)); }

  // Meets the others, then waits until the communicator fails and writes down why.
  void survive(int rank, int ranks, const UniqueId& id, const Settings& settings = {}) {
    TestRank mine(ranks);
    meet(mine, membership_from_id(id, rank, ranks), settings);
    ++board_->here;
    while (mine.plane && !mine.health.failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Error reason = mine.plane ? mine.health.reason() : *mine.error;
    board_->peers[rank] = reason.peer();
    std::snprintf(board_->reasons[rank], sizeof board_->reasons[rank], "%s", reason.what());
    board_->was_told[rank] = true;
    ++board_->told;
  }

  void expect_named(int rank, int dead, pid_t pid) {
    const std::string reason = board_->reasons[rank];
    EXPECT_EQ(board_->peers[rank], dead) << "rank " << rank << ": " << reason;
    EXPECT_NE(reason.find("rank " + std::to_string(dead) + " ("), std::string::npos) << reason;
    EXPECT_NE(reason.find("pid " + std::to_string(pid)), std::string::npos) << reason;
    EXPECT_NE(reason.find("died"), std::string::npos) << reason;
  }

  Blackboard* board_;
};

class KilledRank : public Death, public testing::WithParamInterface<int> {};

TEST_P(KilledRank, IsNamedByAllSurvivors) {
  constexpr int kRanks = 9;
  const int victim = GetParam();
  const RankProcesses others(kRanks, [&](int rank, const UniqueId& id) { survive(rank, kRanks, id); });
  std::thread self([&] { survive(0, kRanks, others.id()); });
  wait_for([&] { return board_->here == kRanks; }, "all ranks meet");
  others.send(victim, SIGKILL);
  wait_for([&] { return board_->told == kRanks - 1; }, "all survivors are told");
  self.join();
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != victim) expect_named(rank, victim, others.pid(victim));
  }
}

INSTANTIATE_TEST_SUITE_P(Death, KilledRank, testing::Values(1, 2, 4, 8));

TEST_F(Death, OfSeveralAtOnceReachesEverybody) {
  constexpr int kRanks = 21;
  const RankProcesses others(kRanks, [&](int rank, const UniqueId& id) { survive(rank, kRanks, id); });
  std::thread self([&] { survive(0, kRanks, others.id()); });
  wait_for([&] { return board_->here == kRanks; }, "all ranks meet");
  const std::vector<int> victims = {1, 3, 9};
  std::vector<int> survivors;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (!std::ranges::count(victims, rank)) survivors.push_back(rank);
  }
  for (const int victim : victims) others.send(victim, SIGKILL);
  // A victim may hear of another before it is its own turn.
  wait_for([&] { return std::ranges::all_of(survivors, [&](int rank) { return board_->was_told[rank].load(); }); },
           "all survivors are told");
  self.join();
  for (const int rank : survivors) {
    EXPECT_EQ(std::ranges::count(victims, board_->peers[rank].load()), 1) << board_->reasons[rank];
  }
}

TEST_F(Death, OfARankThatOnlyStoppedIsDeclaredAfterTheSilence) {
  constexpr int kRanks = 3;
  const Settings settings = {{"TUTTI_SILENCE", "1"}};
  const RankProcesses others(kRanks, [&](int rank, const UniqueId& id) { survive(rank, kRanks, id, settings); });
  std::thread self([&] { survive(0, kRanks, others.id(), settings); });
  wait_for([&] { return board_->here == kRanks; }, "all ranks meet");
  others.send(2, SIGSTOP);
  wait_for([&] { return board_->told == kRanks - 1; }, "all survivors are told");
  self.join();
  EXPECT_EQ(board_->peers[0], 2);
  EXPECT_EQ(board_->peers[1], 2);
  EXPECT_NE(std::string(board_->reasons[1]).find("TUTTI_SILENCE"), std::string::npos) << board_->reasons[1];
}

TEST_F(Death, WhileRanksMeetIsToldToThoseWhoWait) {
  constexpr int kRanks = 4;  // rank 3 never comes
  const Settings settings = {{"TUTTI_STALL_WARNING", "1"}};
  const StandardError error;
  const RankProcesses others(kRanks, [&](int rank, const UniqueId& id) {
    if (rank == 3) ::pause();
    survive(rank, kRanks, id, settings);
  });
  std::thread self([&] { survive(0, kRanks, others.id(), settings); });
  EXPECT_TRUE(StandardError::await([&] { return !error.lines_with("for rank 3 (3 of 4 here)").empty(); }))
      << error.text();
  others.send(2, SIGKILL);
  wait_for([&] { return board_->told == 2; }, "those who wait are told");
  self.join();
  EXPECT_EQ(board_->peers[0], 2) << board_->reasons[0];
  EXPECT_EQ(board_->peers[1], 2) << board_->reasons[1];
}

// Ranks leave one after the other, in any order; then one of those that remain is killed.
class GoodbyeThenDeath : public Death, public testing::WithParamInterface<unsigned> {};

TEST_P(GoodbyeThenDeath, IsToldToAllThatRemain) {
  constexpr int kRanks = 17;
  constexpr int kLeave = 12;
  std::vector<int> order(kRanks - 1);
  for (int rank = 1; rank < kRanks; ++rank) order[static_cast<std::size_t>(rank) - 1] = rank;
  std::shuffle(order.begin(), order.end(), std::mt19937(GetParam()));
  // Rank 0, the root of the tree, leaves in the midst of them.
  order.insert(order.begin() + static_cast<int>(GetParam()) % kLeave, 0);
  std::vector<int> turn(kRanks);
  for (int i = 0; i < kRanks; ++i) turn[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = i;

  std::atomic<int>& turns = board_->peers[63];
  const auto play = [&](int rank, const UniqueId& id) {
    if (turn[static_cast<std::size_t>(rank)] >= kLeave) return survive(rank, kRanks, id);
    TestRank mine(kRanks);
    meet(mine, membership_from_id(id, rank, kRanks));
    EXPECT_EQ(mine.error, nullptr) << rank << ": " << mine.error->what();
    ++board_->here;
    // Half of them wait for each other, the other half leave in crowds.
    while (board_->here < kRanks || turns < turn[static_cast<std::size_t>(rank)] / 2 * 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    mine.plane->leave(static_cast<std::uint64_t>(rank));
    EXPECT_FALSE(mine.health.failed()) << rank << ": " << mine.health.reason().what();
    ++turns;
  };
  const RankProcesses others(kRanks, play);
  std::thread self([&] { play(0, others.id()); });
  wait_for([&] { return turns == kLeave; }, "all that should have left");
  self.join();
  const int victim = order[kLeave];
  others.send(victim, SIGKILL);
  wait_for([&] { return board_->told == kRanks - kLeave - 1; }, "all that remain are told");
  for (int i = kLeave + 1; i < kRanks; ++i) {
    expect_named(order[static_cast<std::size_t>(i)], victim, others.pid(victim));
  }
}

INSTANTIATE_TEST_SUITE_P(Death, GoodbyeThenDeath, testing::Range(0U, 8U));

bool bring_up_loopback() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

// In a network of its own whose queues of connections are short, with few descriptors before the limit is raised.
void meet_in_a_narrow_place(int ranks) {
  if (::unshare(CLONE_NEWNET) != 0 || !bring_up_loopback()) ::_exit(77);
  std::ofstream("/proc/sys/net/core/somaxconn") << "16";
  const auto play = [ranks](int rank, const UniqueId& id) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    TestRank mine(ranks);
    meet(mine, membership_from_id(id, rank, ranks), {{"TUTTI_MEET_TIMEOUT", "100"}});
    if (mine.error) std::fprintf(stderr, "rank %d: %s\n", rank, mine.error->what());
    if (mine.plane) mine.plane->leave(0);
    return mine.plane != nullptr;
  };
  const RankProcesses others(ranks, [&](int rank, const UniqueId& id) { ::_exit(play(rank, id) ? 0 : 1); });
  ::_exit(play(0, others.id()) ? 0 : 1);
}

TEST(Meeting, F25OfManyRanksThroughAShortQueueWithFewDescriptors) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    meet_in_a_narrow_place(256);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this user may not make network namespaces";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tutti
