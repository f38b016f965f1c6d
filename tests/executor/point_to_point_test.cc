#include "executor/point_to_point.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "transport/shm/segment.h"
#include "transport/shm/shm_endpoint.h"
#include "tutti/error.h"

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
      wiring.reserve = [this, rank](std::size_t offset, std::size_t bytes) {
        if (refuse_) throw Error(ErrorCode::kSystem, "no memory");
        reserved_[rank].emplace_back(offset, bytes);
      };
      wiring.connect = [this, rank](PointToPoint::Connection connection, Endpoint& endpoint) {
        connect_shared_memory(endpoint, layout_, segment_.data(),
                              layout_.channels + static_cast<std::uint32_t>(connection), rank, endpoint.peer);
        endpoint.hop_ns = 250;  // far
      };
      sides_[rank] = std::make_unique<PointToPoint>(2, health_, std::move(wiring));
    }
  }
  PointToPoint& of(std::size_t rank) { return *sides_[rank]; }
  const SegmentLayout& layout() const { return layout_; }
  std::size_t window_bytes() const { return layout_.window * layout_.piece_bytes; }
  std::size_t early_places() const { return layout_.window; }
  const std::byte* slots(std::uint32_t rank) const { return segment_.data() + layout_.area(rank); }
  // Offsets and lengths in slots() of what `rank` has taken memory for.
  const std::vector<std::pair<std::size_t, std::size_t>>& reserved(std::size_t rank) const { return reserved_[rank]; }
  void refuse_memory(bool refuse) { refuse_ = refuse; }

 private:
  Health health_{2};
  SegmentLayout layout_;
  Segment segment_;
  std::array<std::vector<std::pair<std::size_t, std::size_t>>, 2> reserved_;
  bool refuse_ = false;
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

// A short message is there when it is announced: the receiver has it at once, and the sender needs to hear that only.
// So is the next: its place is free again.
TEST(PointToPointProgress, OfAShortMessageNeedsOneAnswer) {
  TwoRanks ranks;
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t bytes : {0, 1, 8, 9, 71, 72, 73, 96, 97, 4095, 4096}) {
      SCOPED_TRACE(bytes);
      std::vector<std::byte> sent(bytes, std::byte{7}), taken(bytes);
      Transfer send = transfer(0, 0, sent);
      Transfer receive = transfer(1, 0, taken);
      receive.looks = 2;
      EXPECT_EQ(ranks.of(0).progress_receive(receive), Progress::kAgain) << "it was not sent";
      EXPECT_EQ(ranks.of(1).progress_send(send), Progress::kAgain) << "its receiver has not taken it";
      EXPECT_EQ(ranks.of(1).progress_send(send), Progress::kAgain);
      EXPECT_EQ(ranks.of(0).progress_receive(receive), Progress::kDone);
      EXPECT_TRUE(taken == sent);
      EXPECT_EQ(ranks.of(1).progress_send(send), Progress::kDone);
      EXPECT_EQ(ranks.of(1).progress_send(send), Progress::kDone) << "asked again";
      EXPECT_EQ(ranks.of(0).progress_receive(receive), Progress::kDone) << "asked again";
    }
  }
}

// More are on their way than there are places for, and they are received in any order: none is overwritten before it is
// taken, and those without a place go in pieces.
TEST(PointToPointProgress, OfManyShortMessagesKeepsThemApart) {
  TwoRanks ranks;
  std::mt19937 random(1);
  struct Message {
    std::vector<std::byte> sent, taken;
    Transfer send, receive;
  };
  std::vector<std::unique_ptr<Message>> under_way;
  const std::size_t most = ranks.early_places() + 3;
  for (int number = 0; number < 500; ++number) {
    const std::size_t bytes = 73 + random() % (kEarlyBytes - 72);
    auto& message = *under_way.emplace_back(std::make_unique<Message>());
    for (std::size_t i = 0; i < bytes; ++i) message.sent.push_back(static_cast<std::byte>(random()));
    message.taken.resize(bytes);
    message.send = transfer(0, number, message.sent);
    message.receive = transfer(1, number, message.taken);
    ranks.of(1).post(message.send, true);
    for (const auto& other : under_way) ranks.of(1).progress_send(other->send);
    if (under_way.size() < most) continue;
    const auto received = under_way.begin() + static_cast<std::ptrdiff_t>(random() % most);
    Progress progress = Progress::kAgain;
    for (int left = 10; left > 0 && progress != Progress::kDone; --left) {
      for (const auto& other : under_way) ranks.of(1).progress_send(other->send);
      progress = ranks.of(0).progress_receive((*received)->receive);
    }
    ASSERT_EQ(progress, Progress::kDone) << "message " << number;
    ASSERT_TRUE((*received)->taken == (*received)->sent) << "message " << number;
    ASSERT_EQ(ranks.of(1).progress_send((*received)->send), Progress::kDone) << "message " << number;
    under_way.erase(received);
  }
  for (const auto& message : under_way) {
    ranks.of(0).withdraw(message->receive);
    ranks.of(1).withdraw(message->send);
  }
}

// Early messages and pieces share no memory, and are written where memory was taken.
TEST(PointToPointProgress, OfAShortMessageTakesMemoryOfItsOwnFirst) {
  TwoRanks ranks;
  std::vector<std::vector<std::byte>> sent;
  std::vector<Transfer> sends;
  for (std::size_t i = 0; i < ranks.early_places(); ++i) sent.emplace_back(kEarlyBytes, static_cast<std::byte>(i + 1));
  sent.emplace_back(ranks.window_bytes(), std::byte{99});
  for (std::size_t i = 0; i < sent.size(); ++i) sends.push_back(transfer(0, static_cast<int>(i), sent[i]));
  for (Transfer& send : sends) ranks.of(1).progress_send(send);
  std::vector<std::byte> taken(ranks.window_bytes());
  Transfer receive = transfer(1, sends.back().tag, taken);
  EXPECT_EQ(ranks.of(0).progress_receive(receive), Progress::kAgain);
  ranks.of(1).progress_send(sends.back());  // there was no line to announce it in before
  EXPECT_EQ(ranks.of(0).progress_receive(receive), Progress::kAgain);
  ranks.of(1).progress_send(sends.back());
  EXPECT_EQ(ranks.of(0).progress_receive(receive), Progress::kDone);

  const auto& reserved = ranks.reserved(1);
  ASSERT_EQ(reserved.size(), 2u) << "early messages, then pieces";
  ASSERT_GE(reserved[0].second, ranks.early_places() * kEarlyBytes);
  ASSERT_GE(reserved[1].second, ranks.window_bytes());
  EXPECT_TRUE(reserved[0].first + reserved[0].second <= reserved[1].first ||
              reserved[1].first + reserved[1].second <= reserved[0].first);
  for (const auto& [offset, bytes] : reserved) {
    EXPECT_GE(offset, ranks.layout().pieces(0));
    EXPECT_LE(offset + bytes, ranks.layout().pieces(1)) << "where messages to the next rank lie";
  }
  for (std::size_t i = 0; i < ranks.early_places(); ++i) {
    std::vector<std::byte> found(kEarlyBytes);
    Transfer early = transfer(1, static_cast<int>(i), found);
    EXPECT_EQ(std::memcmp(ranks.slots(1) + reserved[0].first + i * kEarlyBytes, sent[i].data(), kEarlyBytes), 0);
    EXPECT_EQ(ranks.of(0).progress_receive(early), Progress::kDone);
    EXPECT_TRUE(found == sent[i]);
    EXPECT_EQ(ranks.of(1).progress_send(sends[i]), Progress::kDone);
  }
}

// Nothing is announced that is not there.
TEST(PointToPointProgress, OfAShortMessageWithoutMemoryAnnouncesNothing) {
  TwoRanks ranks;
  std::vector<std::byte> sent(100, std::byte{7}), taken(100);
  Transfer send = transfer(0, 0, sent);
  Transfer receive = transfer(1, 0, taken);
  ranks.refuse_memory(true);
  EXPECT_THROW(ranks.of(1).progress_send(send), Error);
  EXPECT_EQ(ranks.of(0).progress_receive(receive), Progress::kAgain);
  ranks.refuse_memory(false);
  EXPECT_EQ(ranks.of(1).progress_send(send), Progress::kAgain);
  EXPECT_EQ(ranks.of(0).progress_receive(receive), Progress::kDone);
  EXPECT_TRUE(taken == sent);
  EXPECT_EQ(ranks.of(1).progress_send(send), Progress::kDone);
}

}  // namespace
}  // namespace tutti
