#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "executor/point_to_point.h"
#include "transport/shm/segment.h"
#include "transport/shm/shm_endpoint.h"

namespace tutti {
namespace {

// Three ranks' sends and receives over shared memory, all carried on by this thread: a transfer is issued when it is
// carried on for the first time.
class IssueOrderTest : public testing::Test {
 protected:
  IssueOrderTest() {
    layout_.members = layout_.ranks = kRanks;
    layout_.channels = 1;
    layout_.large_ring_bytes = SegmentLayout::kPage;
    layout_.piece_bytes = SegmentLayout::kPage;
    segment_ = Segment::create(layout_.segment_bytes());
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      PointToPoint::Wiring wiring;
      wiring.slots = segment_.data() + layout_.area(rank);
      wiring.piece_bytes = layout_.piece_bytes;
      wiring.pieces = [this](int peer) { return layout_.pieces(static_cast<std::uint32_t>(peer)); };
      wiring.reserve = [](std::size_t, std::size_t) {};
      wiring.connect = [this, rank](PointToPoint::Connection connection, Endpoint& endpoint) {
        connect_shared_memory(endpoint, layout_, segment_.data(), 1 + static_cast<std::uint32_t>(connection), rank,
                              endpoint.peer);
      };
      ranks_[rank] = std::make_unique<PointToPoint>(kRanks, health_, std::move(wiring));
    }
  }

  static Transfer transfer(int peer, int tag, int& value) {
    Transfer transfer;
    transfer.peer = peer;
    transfer.tag = tag;
    transfer.type = DataType::kI32;
    transfer.count = 1;
    transfer.input = reinterpret_cast<const std::byte*>(&value);
    transfer.output = reinterpret_cast<std::byte*>(&value);
    return transfer;
  }

  Progress send(int rank, Transfer& transfer) {
    return ranks_[static_cast<std::size_t>(rank)]->progress_send(transfer);
  }
  Progress receive(int rank, Transfer& transfer) {
    return ranks_[static_cast<std::size_t>(rank)]->progress_receive(transfer);
  }

  static constexpr int kRanks = 3;
  Health health_{kRanks};
  SegmentLayout layout_;
  Segment segment_;
  std::array<std::unique_ptr<PointToPoint>, kRanks> ranks_;
};

TEST_F(IssueOrderTest, ReceivesThatCompeteAreServedAsTheyWereIssuedWhicheverIsLookedAtFirst) {
  std::array<int, 4> got{-1, -1, -1, -1};
  std::array<Transfer, 4> receives{transfer(1, 9, got[0]), transfer(kAnySource, 9, got[1]), transfer(1, 9, got[2]),
                                   transfer(1, 5, got[3])};
  for (Transfer& one : receives) ASSERT_EQ(receive(0, one), Progress::kAgain);
  for (int value : {10, 11, 12}) {
    Transfer sent = transfer(0, 9, value);
    for (int turn = 0; send(1, sent) != Progress::kDone; ++turn) {
      ASSERT_LT(turn, 100);
      for (auto one = receives.rbegin(); one != receives.rend(); ++one) {
        if (one->moved < one->bytes()) receive(0, *one);
      }
    }
  }
  EXPECT_EQ(got, (std::array{10, 11, 12, -1}));
  ranks_[0]->withdraw(receives[3]);
}

TEST_F(IssueOrderTest, ReceivesFromDifferentRanksDoNotCompete) {
  std::array<int, 2> got{-1, -1};
  std::array<Transfer, 2> receives{transfer(2, 9, got[0]), transfer(1, 9, got[1])};
  for (Transfer& one : receives) ASSERT_EQ(receive(0, one), Progress::kAgain);
  int value = 10;
  Transfer sent = transfer(0, 9, value);
  for (int turn = 0; send(1, sent) != Progress::kDone; ++turn) {
    ASSERT_LT(turn, 100);
    receive(0, receives[1]);
  }
  EXPECT_EQ(got, (std::array{-1, 10}));
  ranks_[0]->withdraw(receives[0]);
}

TEST_F(IssueOrderTest, SendsThatCouldNotBeAnnouncedAtOnceKeepTheirOrder) {
  // The lines for announcements are full as long as the receiver does not look.
  std::array<int, 8> others{};
  std::vector<Transfer> full;
  for (int& value : others) full.push_back(transfer(0, 1, value));
  for (Transfer& one : full) ASSERT_EQ(send(1, one), Progress::kAgain);
  ASSERT_EQ(full.back().stage, Transfer::Stage::kIssued);

  std::array<int, 2> values{20, 21};
  std::array<Transfer, 2> sends{transfer(0, 9, values[0]), transfer(0, 9, values[1])};
  for (Transfer& one : sends) ASSERT_EQ(send(1, one), Progress::kAgain);
  for (const int expected : values) {
    int got = -1;
    Transfer taken = transfer(1, 9, got);
    for (int turn = 0; receive(0, taken) != Progress::kDone; ++turn) {
      ASSERT_LT(turn, 100);
      for (auto one = sends.rbegin(); one != sends.rend(); ++one) send(1, *one);
    }
    EXPECT_EQ(got, expected);
  }
  for (Transfer& one : full) ranks_[1]->withdraw(one);
}

TEST_F(IssueOrderTest, AReceiveThatIsGivenUpMakesRoomForTheNext) {
  std::array<int, 3> got{-1, -1, -1};
  std::array<Transfer, 3> receives{transfer(1, 9, got[0]), transfer(1, 9, got[1]), transfer(1, 9, got[2])};
  for (Transfer& one : receives) ASSERT_EQ(receive(0, one), Progress::kAgain);
  ranks_[0]->withdraw(receives[0]);
  ranks_[0]->withdraw(receives[2]);
  ranks_[0]->withdraw(receives[2]);
  int value = 10;
  Transfer sent = transfer(0, 9, value);
  for (int turn = 0; send(1, sent) != Progress::kDone; ++turn) {
    ASSERT_LT(turn, 100);
    receive(0, receives[1]);
  }
  EXPECT_EQ(got, (std::array{-1, 10, -1}));
}

}  // namespace
}  // namespace tutti
