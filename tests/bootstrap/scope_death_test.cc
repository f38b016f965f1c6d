// Deaths and goodbyes on a tree of control connections that several communicators share. Ranks are processes.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>

#include "processes.h"

namespace tutti {
namespace {

constexpr int kRanks = 21;

// What the processes of a test tell each other: lies in shared memory.
struct Blackboard {
  std::atomic<int> here;
  std::atomic<int> stage;
  std::atomic<int> told[2][kRanks];  // by scope and rank of the tree; 0: not; else the peer that was named + 2
  char reasons[2][kRanks][256];
};

// Two communicators that were split off: one that has the victims as members, and one that has not. The ranks of each
// are in another order than in the tree.
class ScopeDeath : public testing::Test {
 protected:
  ScopeDeath() {
    board_ = static_cast<Blackboard*>(
        ::mmap(nullptr, sizeof(Blackboard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~ScopeDeath() override { ::munmap(board_, sizeof(Blackboard)); }

  static ControlPlane::Subset subset(const std::vector<int>& members, int rank, const char* name) {
    ControlPlane::Subset made;
    made.members = members;
    std::ranges::reverse(made.members);
    made.rank = static_cast<int>(std::ranges::find(made.members, rank) - made.members.begin());
    made.label = name;
    made.name = name;
    return made;
  }

  // `doomed` and `healthy` are ranks of the tree, ascending. In the end the first of the healthy says so to the others.
  void live(int rank, const UniqueId& id, const std::vector<int>& doomed, const std::vector<int>& healthy,
            bool leave_world = true) {
    TestRank mine(kRanks);
    meet(mine, membership_from_id(id, rank, kRanks), {{"TUTTI_SILENCE", "20"}});
    const std::array both{&doomed, &healthy};
    std::array<std::unique_ptr<Health>, 2> health;
    std::array<std::unique_ptr<ControlPlane>, 2> planes;
    for (std::size_t i = 0; i < 2; ++i) {
      if (std::ranges::find(*both[i], rank) == both[i]->end()) continue;
      health[i] = std::make_unique<Health>(static_cast<int>(both[i]->size()));
      planes[i] = mine.plane->split(subset(*both[i], rank, i == 0 ? "doomed" : "healthy"), *health[i]);
    }
    mine.plane->all_gather({}, Clock::now() + std::chrono::seconds(20));
    if (leave_world) mine.plane->leave(0);
    ++board_->here;
    bool poisoned = false;
    while (board_->stage < 2) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (!planes[i] || !health[i]->failed() || board_->told[i][rank] != 0) continue;
        const Error reason = health[i]->reason();
        std::snprintf(board_->reasons[i][rank], sizeof board_->reasons[i][rank], "%s", reason.what());
        board_->told[i][rank] = reason.peer() + 2;
      }
      if (board_->stage == 1 && rank == healthy.front() && !std::exchange(poisoned, true)) {
        planes[1]->poison(ErrorCode::kAborted, "that was all", Error::kNoPeer);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void expect(const std::vector<int>& doomed, const std::vector<int>& healthy, const std::vector<int>& victims,
              bool leave_world = true) {
    const auto among = [](const std::vector<int>& ranks, int rank) {
      return std::ranges::find(ranks, rank) != ranks.end();
    };
    const RankProcesses others(kRanks,
                               [&](int rank, const UniqueId& id) { live(rank, id, doomed, healthy, leave_world); });
    std::thread self([&] { live(0, others.id(), doomed, healthy, leave_world); });
    wait_for([&] { return board_->here == kRanks; }, "all ranks meet");
    // None of them does anything any more when the first dies.
    for (const int victim : victims) others.send(victim, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const int victim : victims) others.send(victim, SIGKILL);
    const auto all_told = [&](std::size_t scope, const std::vector<int>& members) {
      return std::ranges::all_of(members,
                                 [&](int rank) { return among(victims, rank) || board_->told[scope][rank] != 0; });
    };
    wait_for([&] { return all_told(0, doomed); }, "all members of the one are told");
    std::vector<int> reversed = doomed;
    std::ranges::reverse(reversed);
    for (const int rank : doomed) {
      if (among(victims, rank)) continue;
      const std::string reason = board_->reasons[0][rank];
      const int named = board_->told[0][rank] - 2;
      ASSERT_GE(named, 0) << reason;
      const int victim = reversed[static_cast<std::size_t>(named)];
      EXPECT_TRUE(among(victims, victim)) << "rank " << rank << ": " << reason;
      for (const std::string& part :
           {"rank " + std::to_string(named) + " (", "pid " + std::to_string(others.pid(victim)),
            std::string("communicator \"doomed\" died")}) {
        EXPECT_NE(reason.find(part), std::string::npos) << part << " is not in " << reason;
      }
    }
    for (const int rank : healthy) EXPECT_EQ(board_->told[1][rank], 0) << board_->reasons[1][rank];
    // The others are one tree again, or will be.
    board_->stage = 1;
    wait_for([&] { return all_told(1, healthy); }, "all members of the other hear of each other");
    for (const int rank : healthy) {
      EXPECT_NE(std::string(board_->reasons[1][rank]).find("that was all"), std::string::npos)
          << board_->reasons[1][rank];
    }
    board_->stage = 2;
    self.join();
  }

  Blackboard* board_;
};

std::vector<int> all_but(const std::vector<int>& out) {
  std::vector<int> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (std::ranges::find(out, rank) == out.end()) ranks.push_back(rank);
  }
  return ranks;
}

// Rank 1 connects 5 to 8 with the rest, and 2 connects 9 to 12.
TEST_F(ScopeDeath, OfAnInnerRankFailsItsCommunicatorsAndNoOther) { expect({1, 3, 6, 8, 20}, all_but({1}), {1}); }

TEST_F(ScopeDeath, OfRanksThatOthersConnectFailsNobodyElse) {
  expect({1, 2, 6, 11, 20}, {0, 5, 7, 9, 10, 12, 17, 19}, {1, 2});
}

TEST_F(ScopeDeath, WhileTheParentLivesFailsItToo) { expect({1, 3, 6, 8, 20}, {0, 5, 9, 20}, {1}, false); }

// Nobody sees the connections of the leaves end: all their neighbours died, too.
TEST_F(ScopeDeath, OfAWholeBranchIsFoundOut) { expect({6, 7, 10, 20}, {0, 3, 8, 9, 12, 16}, {1, 2, 6, 7}, false); }

// Rank 0 is the test itself and stays.
TEST_F(ScopeDeath, OfTheLowestRanksLeavesTheRestConnected) {
  expect({1, 2, 3, 4, 15}, {5, 6, 9, 13, 17, 20}, {1, 2, 3, 4});
}

}  // namespace
}  // namespace tutti
