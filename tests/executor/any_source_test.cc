#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "executor/point_to_point.h"
#include "support/world.h"

namespace tutti {
namespace {

Transfer transfer(int peer, std::byte& byte) {
  Transfer transfer;
  transfer.peer = peer;
  transfer.count = 1;
  transfer.input = transfer.output = &byte;
  return transfer;
}

// Messages of all ranks are there. Whoever receives from anybody is told whose message it was, and no rank that sends
// all the time keeps the others waiting: each receive looks first behind the rank that the last one found.
TEST(AnySource, IsNotedAndServedInTurns_E) {
  constexpr int kRanks = 3;
  constexpr int kRounds = 4;
  World world(kRanks, {});
  std::vector<std::byte> bytes;
  for (int rank = 0; rank < kRanks; ++rank) bytes.push_back(std::byte(10 + rank));
  std::vector<Transfer> sends;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < kRounds; ++i) sends.push_back(transfer(0, bytes[static_cast<std::size_t>(rank)]));
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_EQ(world.point_to_point(rank).progress_send(sends[static_cast<std::size_t>(rank * kRounds + i)]),
                Progress::kAgain);
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> heard(kRanks, 0);
    for (int i = 0; i < kRanks; ++i) {
      std::byte got{0};
      Transfer receive = transfer(kAnySource, got);
      ASSERT_EQ(world.point_to_point(0).progress_receive(receive), Progress::kDone);
      ASSERT_GE(receive.peer, 0);
      EXPECT_EQ(got, bytes[static_cast<std::size_t>(receive.peer)]);
      ++heard[static_cast<std::size_t>(receive.peer)];
    }
    EXPECT_EQ(heard, std::vector<int>(kRanks, 1)) << "round " << round;
  }
}

}  // namespace
}  // namespace tutti
