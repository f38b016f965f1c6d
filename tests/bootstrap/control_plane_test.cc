#include "bootstrap/control_plane.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <mutex>

#include "meeting.h"

namespace tutti {
namespace {

void expect_all_fail(const TestRanks& ranks, ErrorCode code, const std::string& words) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    wait_for([&] { return ranks[rank]->health.failed(); }, "rank " + std::to_string(rank) + " is told");
    const Error reason = ranks[rank]->health.reason();
    EXPECT_EQ(reason.code(), code) << reason.what();
    EXPECT_NE(std::string(reason.what()).find(words), std::string::npos) << reason.what();
  }
}

TEST(ControlPlane, PoisonReachesEveryRank) {
  TestRanks made = meet_all(22);
  expect_all_met(made);
  made[13]->plane->poison(ErrorCode::kSystem, "the disk of rank 13 is full", 13);
  expect_all_fail(made, ErrorCode::kSystem, "the disk of rank 13 is full");
}

TEST(ControlPlane, PoisonWakesAnExchange) {
  TestRanks made = meet_all(5);
  expect_all_met(made);
  in_threads(5, [&](int rank) {
    if (rank == 4) return made[rank]->plane->poison(ErrorCode::kSystem, "no more", 4);
    EXPECT_THROW(made[rank]->plane->all_gather({}, Clock::now() + std::chrono::seconds(60)), Error);
  });
}

TEST(ControlPlane, AnExchangeEndsAtItsDeadlineOnAllRanks) {
  TestRanks made = meet_all(3);
  expect_all_met(made);
  in_threads(3, [&](int rank) {
    if (rank == 1) return;
    EXPECT_THROW(made[rank]->plane->all_gather({}, Clock::now() + std::chrono::milliseconds(100)), Error);
  });
  expect_all_fail(made, ErrorCode::kTimeout, "did not end in time");
}

TEST(ControlPlane, ARankThatGoesWithoutAGoodbyeFailsTheOthers) {
  TestRanks made = meet_all(6);
  expect_all_met(made);
  made[1]->plane.reset();
  made.erase(made.begin() + 1);
  expect_all_fail(made, ErrorCode::kRemote, "rank 1 (");
}

TEST(ControlPlane, GoodbyesReachEveryRankAndAreNoFailure) {
  TestRanks made = meet_all(9);
  expect_all_met(made);
  for (const int leaver : {2, 0, 8}) {
    made[leaver]->plane->leave(static_cast<std::uint64_t>(100 + leaver));
    for (int rank = 0; rank < 9; ++rank) {
      if (made[rank]->health.left_after(rank) != Health::kStillHere) continue;
      wait_for([&] { return made[rank]->health.left_after(leaver) == static_cast<std::uint64_t>(100 + leaver); },
               "rank " + std::to_string(rank) + " knows that rank " + std::to_string(leaver) + " left");
      EXPECT_EQ(made[rank]->health.left_after((leaver + 1) % 8 == 0 ? 1 : 7), Health::kStillHere);
    }
  }
  made[3]->plane->poison(ErrorCode::kSystem, "after the goodbyes", 3);
  for (const int left : {8, 2, 0}) {
    EXPECT_FALSE(made[left]->health.failed());
    made.erase(made.begin() + left);
  }
  expect_all_fail(made, ErrorCode::kSystem, "after the goodbyes");
}

CallDescription call(std::uint64_t sequence, std::uint64_t signature, const char* text) {
  CallDescription description;
  description.sequence = sequence;
  description.signature = signature;
  std::snprintf(description.text, sizeof description.text, "%s", text);
  return description;
}

TEST(ControlPlane, CallsThatDifferAreFoundAndBothAreNamed) {
  TestRanks made = meet_all(7);
  expect_all_met(made);
  for (int rank = 0; rank < 7; ++rank) {
    made[rank]->plane->set_describe_call([rank](std::uint64_t sequence, CallDescription& out) {
      if (sequence != 12) return false;
      out = rank == 5 ? call(12, 2, "broadcast f32x100 root 0") : call(12, 1, "all_reduce f32x100 sum");
      return true;
    });
  }
  made[1]->plane->compare_call(call(12, 1, "all_reduce f32x100 sum"));
  made[1]->plane->compare_call(call(12, 1, "all_reduce f32x100 sum"));
  expect_all_fail(made, ErrorCode::kMismatch, "called \"broadcast f32x100 root 0\" as #12 of communicator \"world\"");
  expect_all_fail(made, ErrorCode::kMismatch, "called \"all_reduce f32x100 sum\"");
  expect_all_fail(made, ErrorCode::kMismatch, "rank 5 (");
}

TEST(ControlPlane, CallsThatAgreeOrWereNotMadeYetAreNoFailure) {
  TestRanks made = meet_all(5);
  expect_all_met(made);
  for (int rank = 0; rank < 5; ++rank) {
    made[rank]->plane->set_describe_call([rank](std::uint64_t sequence, CallDescription& out) {
      out = call(sequence, 1, "barrier");
      return rank != 2;
    });
  }
  for (int rank = 0; rank < 5; ++rank) made[rank]->plane->compare_call(call(3, 1, "barrier"));
  in_threads(5, [&](int rank) { made[rank]->plane->all_gather({}, Clock::now() + std::chrono::seconds(20)); });
  leave_all(made);
  for (const auto& rank : made) EXPECT_FALSE(rank->health.failed());
}

struct DataEnds {
  std::mutex mutex;
  std::map<std::pair<int, int>, UniqueFd> sockets;  // (rank, peer)
  std::map<std::pair<int, int>, bool> initiated;
};

TEST(ControlPlane, DataConnectionsJoinTheRightRanksWithNothingLost) {
  constexpr int kRanks = 5;
  TestRanks made = meet_all(kRanks);
  expect_all_met(made);
  DataEnds ends;
  // Whoever is told of its socket sends at once, as a transport would.
  const auto handle = [&](int rank) {
    made[rank]->plane->set_data_handler([&ends, rank](int peer, UniqueFd socket, bool initiated) {
      const std::string greeting = "from " + std::to_string(rank) + " to " + std::to_string(peer) + ".";
      EXPECT_EQ(::send(socket.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL), greeting.size());
      const std::lock_guard lock(ends.mutex);
      ends.initiated[{rank, peer}] = initiated;
      ends.sockets[{rank, peer}] = std::move(socket);
    });
  };
  for (int rank = 1; rank < kRanks; ++rank) handle(rank);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int peer = 0; peer < rank; ++peer) made[rank]->plane->connect_data(peer);
  }
  handle(0);  // late: connections that came before wait
  wait_for(
      [&] {
        const std::lock_guard lock(ends.mutex);
        return ends.sockets.size() == kRanks * (kRanks - 1);
      },
      "all pairs are connected");
  for (auto& [pair, socket] : ends.sockets) {
    const std::string expected = "from " + std::to_string(pair.second) + " to " + std::to_string(pair.first) + ".";
    char text[64] = {};
    pollfd readable{socket.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&readable, 1, 10000), 1);
    EXPECT_GT(::recv(socket.get(), text, sizeof text - 1, 0), 0);
    EXPECT_EQ(std::string(text), expected);
    EXPECT_EQ(ends.initiated[pair], pair.first > pair.second);
  }
  leave_all(made);
}

TEST(ControlPlane, OfOneRankNeedsNobody) {
  TestRanks made = make_ranks(1);
  Membership membership;
  meet(*made[0], membership);
  expect_all_met(made);
  const std::byte mine{7};
  const auto all = made[0]->plane->all_gather({&mine, 1}, Clock::now());
  ASSERT_EQ(all.size(), 1);
  EXPECT_EQ(all[0], std::vector{mine});
  EXPECT_EQ(made[0]->plane->derive_key("x").size(), 32);
  made[0]->plane->poison(ErrorCode::kSystem, "enough", Error::kNoPeer);
  EXPECT_TRUE(made[0]->health.failed());
  made[0]->plane->leave(0);
}

}  // namespace
}  // namespace tutti
