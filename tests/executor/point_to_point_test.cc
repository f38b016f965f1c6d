#include "executor/point_to_point.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "transport/shm/segment.h"
#include "transport/shm/shm_endpoint.h"

namespace tutti {
namespace {

// Point-to-point of two ranks in one segment, both driven by this thread.
class TwoRanks {
 public:
  TwoRanks() {
    layout_.members = layout_.ranks = 2;
    segment_ = Segment::create(layout_.segment_bytes());
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      PointToPoint::Wiring wiring;
      wiring.slots = segment_.data() + layout_.area(rank);
      wiring.piece_bytes = layout_.piece_bytes;
      wiring.pieces = [this](int peer) { return layout_.pieces(static_cast<std::uint32_t>(peer)); };
      wiring.reserve = [](std::size_t, std::size_t) {};
      wiring.connect = [this, rank](PointToPoint::Connection connection, Endpoint& endpoint) {
        connect_shared_memory(endpoint, layout_, segment_.data(),
                              layout_.channels + static_cast<std::uint32_t>(connection), rank, endpoint.peer);
      };
      sides_[rank] = std::make_unique<PointToPoint>(2, health_, std::move(wiring));
    }
  }
  PointToPoint& of(std::size_t rank) { return *sides_[rank]; }
  std::size_t window_bytes() const { return layout_.window * layout_.piece_bytes; }

 private:
  Health health_{2};
  SegmentLayout layout_;
  Segment segment_;
  std::array<std::unique_ptr<PointToPoint>, 2> sides_;
};

Transfer transfer(int peer, int tag, std::vector<std::byte>& bytes) {
  Transfer transfer;
  transfer.peer = peer;
  transfer.tag = tag;
  transfer.count = bytes.size();
  transfer.input = transfer.output = bytes.data();
  return transfer;
}

// A thread may ask again about a receive that is done, while the peer's next message is on its way.
TEST(PointToPointProgress, OfAReceiveThatIsDoneDisturbsNoOther) {
  TwoRanks ranks;
  std::vector<std::vector<std::byte>> sent, taken;
  std::vector<Transfer> sends, receives;
  for (int i = 0; i < 3; ++i) {
    const std::size_t bytes = i == 0 ? 1 : 3 * ranks.window_bytes();
    sent.emplace_back(bytes, std::byte(i + 1));
    taken.emplace_back(bytes);
    sends.push_back(transfer(0, i, sent.back()));
    receives.push_back(transfer(1, i, taken.back()));
  }
  while (ranks.of(0).progress_receive(receives[0]) != Progress::kDone) ranks.of(1).progress_send(sends[0]);
  EXPECT_EQ(ranks.of(1).progress_send(sends[0]), Progress::kDone);

  ranks.of(1).progress_send(sends[1]);
  ranks.of(1).progress_send(sends[2]);
  EXPECT_EQ(ranks.of(0).progress_receive(receives[1]), Progress::kAgain);
  EXPECT_EQ(ranks.of(0).progress_receive(receives[0]), Progress::kDone);
  for (int left = 1000; left > 0; --left) {
    for (const std::size_t i : {2, 1}) {
      ranks.of(0).progress_receive(receives[i]);
      ranks.of(1).progress_send(sends[i]);
    }
  }
  EXPECT_TRUE(taken == sent);
}

// Each thread is told about its own receive.
TEST(PointToPointProgress, OfAReceiveThatMatchesIsNotDisturbedByOneThatDoesNot) {
  TwoRanks ranks;
  std::vector<std::byte> sent(5, std::byte{3}), longer(6), taken(5);
  std::array sends{transfer(0, 1, sent), transfer(0, 2, sent)};
  Transfer wrong = transfer(1, 1, longer);
  Transfer right = transfer(1, 2, taken);
  for (Transfer& send : sends) ranks.of(1).progress_send(send);
  EXPECT_EQ(ranks.of(0).progress_receive(wrong), Progress::kFailed);
  EXPECT_EQ(ranks.of(0).mismatch(1)->count, 5u);
  Progress progress = Progress::kAgain;
  for (int left = 10; left > 0 && progress == Progress::kAgain; --left) {
    progress = ranks.of(0).progress_receive(right);
    ranks.of(1).progress_send(sends[1]);
  }
  EXPECT_EQ(progress, Progress::kDone);
  EXPECT_TRUE(taken == sent);
}

}  // namespace
}  // namespace tutti
