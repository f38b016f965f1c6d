#include "executor/point_to_point.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  explicit TwoRanks(std::size_t most_unmatched = PointToPoint::kMostUnmatched) {
    layout_.members = layout_.ranks = 2;
    segment_ = Segment::create(layout_.segment_bytes());
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      PointToPoint::Wiring wiring;
      wiring.slots = segment_.data() + layout_.area(rank);
      wiring.piece_bytes = layout_.piece_bytes;
      wiring.most_unmatched = most_unmatched;
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
  Health& health() { return health_; }

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
  std::vector<std::byte> sent(5, std::byte{3}), shorter(4), taken(5);
  std::array sends{transfer(0, 1, sent), transfer(0, 2, sent)};
  Transfer wrong = transfer(1, 1, shorter);
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

// Grants come in the order of the receives. The thread that finds one takes it, for whichever send it is.
TEST(PointToPointProgress, OfASendNeedsNoOtherSendsThread_D7) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{73}, std::size_t{5000}, std::size_t{1} << 20}) {
    SCOPED_TRACE(bytes);
    TwoRanks ranks;
    std::vector<std::vector<std::byte>> sent, taken;
    std::vector<Transfer> sends, receives;
    for (int i = 0; i < 3; ++i) {
      sent.emplace_back(bytes, std::byte(i + 1));
      taken.emplace_back(bytes);
      sends.push_back(transfer(0, i, sent.back()));
      receives.push_back(transfer(1, i, taken.back()));
    }
    for (Transfer& send : sends) ranks.of(1).progress_send(send);
    for (Transfer& receive : receives) ranks.of(0).progress_receive(receive);
    // The threads of the first two are elsewhere from now on, on both sides.
    bool helped = false;
    Progress received = Progress::kAgain, send = Progress::kAgain;
    for (int left = 1000; left > 0 && (received != Progress::kDone || send != Progress::kDone); --left) {
      received = ranks.of(0).progress_receive(receives[2]);
      send = ranks.of(1).progress_send(sends[2]);
      helped |= sends[2].helped;
    }
    EXPECT_EQ(received, Progress::kDone);
    EXPECT_EQ(send, Progress::kDone);
    EXPECT_TRUE(helped) << "their threads must be told";
    for (std::size_t i = 0; i < 2; ++i) {
      for (int left = 1000; left > 0 && ranks.of(0).progress_receive(receives[i]) != Progress::kDone; --left) {
        ranks.of(1).progress_send(sends[i]);
      }
      EXPECT_EQ(ranks.of(0).progress_receive(receives[i]), Progress::kDone);
      EXPECT_EQ(ranks.of(1).progress_send(sends[i]), Progress::kDone);
    }
    EXPECT_TRUE(taken == sent);
  }
}

// A grant may come for a send that its caller has given up.
TEST(PointToPointProgress, OfASendIsNotStoppedByOneThatWasWithdrawn_D7) {
  TwoRanks ranks;
  std::vector<std::byte> sent(1, std::byte{1}), taken(1);
  Transfer given_up = transfer(0, 1, sent), kept = transfer(0, 2, sent);
  Transfer first = transfer(1, 1, taken), second = transfer(1, 2, taken);
  ranks.of(1).progress_send(given_up);
  ranks.of(1).progress_send(kept);
  ranks.of(1).withdraw(given_up);
  EXPECT_EQ(ranks.of(0).progress_receive(first), Progress::kDone);
  EXPECT_EQ(ranks.of(0).progress_receive(second), Progress::kDone);
  EXPECT_EQ(ranks.of(1).progress_send(kept), Progress::kDone);
  EXPECT_FALSE(ranks.health().failed());
}

// However many messages of one tag nobody receives yet: those of another are found behind them, and theirs stay in
// order.
TEST(PointToPointProgress, OfAMessageIsNotHiddenByThoseOfAnotherTag_D8) {
  TwoRanks ranks;
  constexpr std::size_t kMessages = 500;
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::unique_ptr<Transfer>> sends;
  for (std::size_t i = 0; i <= kMessages; ++i) {
    const std::size_t bytes = i % 3 == 0 ? 2 : i % 3 == 1 ? 100 : 5000;
    sent.emplace_back(bytes, static_cast<std::byte>(i % 251));
    const int tag = i == kMessages ? 9 : static_cast<int>(i % 2);
    sends.push_back(std::make_unique<Transfer>(transfer(0, tag, sent.back())));
    ranks.of(1).post(*sends.back(), true);
  }
  const auto receive = [&](int tag, std::size_t number) {
    std::vector<std::byte> taken(sent[number].size());
    Transfer receive = transfer(1, tag, taken);
    Progress progress = Progress::kAgain;
    for (std::size_t left = 2 * kMessages; left > 0 && progress == Progress::kAgain; --left) {
      for (const auto& send : sends) ranks.of(1).progress_send(*send);
      progress = ranks.of(0).progress_receive(receive);
    }
    EXPECT_EQ(progress, Progress::kDone) << "message " << number;
    EXPECT_TRUE(taken == sent[number]) << "message " << number;
    if (progress != Progress::kDone) ranks.of(0).withdraw(receive);
    return progress == Progress::kDone;
  };
  ASSERT_TRUE(receive(9, kMessages));
  for (std::size_t i = 1; i < kMessages; i += 2) ASSERT_TRUE(receive(1, i));
  for (std::size_t i = 0; i < kMessages; i += 2) ASSERT_TRUE(receive(0, i));
  for (const auto& send : sends) EXPECT_EQ(ranks.of(1).progress_send(*send), Progress::kDone);
}

// So many and no more: the next waits at its sender, which can say why.
TEST(PointToPointProgress, OfASendWaitsBehindTooManyWithoutAReceive_D8) {
  TwoRanks ranks(70);
  std::vector<std::byte> sent(1, std::byte{1}), taken(1);
  std::vector<std::unique_ptr<Transfer>> sends;
  for (int i = 0; i < 71; ++i) {
    sends.push_back(std::make_unique<Transfer>(transfer(0, i, sent)));
    ranks.of(1).post(*sends.back(), true);
  }
  Transfer last = transfer(1, 70, taken);
  for (int turn = 0; turn < 200; ++turn) {
    for (const auto& send : sends) ranks.of(1).progress_send(*send);
    EXPECT_EQ(ranks.of(0).progress_receive(last), Progress::kAgain);
  }
  EXPECT_TRUE(ranks.of(1).is_full(0));
  Transfer first = transfer(1, 0, taken);
  EXPECT_EQ(ranks.of(0).progress_receive(first), Progress::kDone);
  EXPECT_EQ(ranks.of(1).progress_send(*sends[70]), Progress::kAgain);
  EXPECT_EQ(ranks.of(0).progress_receive(last), Progress::kDone);
  EXPECT_EQ(ranks.of(1).progress_send(*sends[70]), Progress::kDone);
  EXPECT_FALSE(ranks.health().failed());
}

// What the receiver has taken is sent, whatever happens afterwards; what lies here is received.
TEST(PointToPointProgress, OfAMessageThatHasArrivedIsNoFailure_C3) {
  for (const std::size_t bytes : {1, 100}) {
    TwoRanks ranks;
    std::vector<std::byte> sent(bytes, std::byte{1}), taken(bytes);
    Transfer send = transfer(0, 1, sent), receive = transfer(1, 1, taken), later = transfer(0, 2, sent);
    Transfer never = transfer(1, 2, taken);
    EXPECT_EQ(ranks.of(1).progress_send(send), Progress::kAgain);
    ranks.health().fail(ErrorCode::kRemote, "a rank died", 1);
    EXPECT_EQ(ranks.of(0).progress_receive(receive), Progress::kDone);
    EXPECT_TRUE(taken == sent);
    EXPECT_EQ(ranks.of(1).progress_send(send), Progress::kDone);
    EXPECT_EQ(ranks.of(1).progress_send(later), Progress::kFailed);
    EXPECT_EQ(ranks.of(0).progress_receive(never), Progress::kFailed);
    ranks.of(1).withdraw(later);
    ranks.of(0).withdraw(never);
  }
}

TEST(PointToPointProgress, OfAReceiveIntoALongerBufferSaysWhatCame_B10) {
  for (const std::size_t bytes : {0, 1, 72, 73, 4096, 4097, 1'000'000}) {
    SCOPED_TRACE(bytes);
    TwoRanks ranks;
    std::vector<std::byte> sent(bytes, std::byte{1}), taken(bytes + 10, std::byte{9});
    Transfer send = transfer(0, 0, sent), receive = transfer(1, 0, taken), probe = transfer(1, 0, taken);
    probe.probes = true;
    Progress sending = Progress::kAgain, received = Progress::kAgain, probed = Progress::kAgain;
    for (int left = 1000; left > 0 && received != Progress::kDone; --left) {
      sending = ranks.of(1).progress_send(send);
      if (probed != Progress::kDone) probed = ranks.of(0).progress_receive(probe);
      received = ranks.of(0).progress_receive(receive);
    }
    EXPECT_EQ(received, Progress::kDone);
    EXPECT_EQ(probed, Progress::kDone);
    for (int left = 10; left > 0 && sending != Progress::kDone; --left) sending = ranks.of(1).progress_send(send);
    EXPECT_EQ(sending, Progress::kDone);
    EXPECT_EQ(receive.count, bytes);
    EXPECT_EQ(probe.count, bytes);
    EXPECT_EQ(probe.peer, 1);
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), taken.begin()));
    EXPECT_TRUE(std::all_of(taken.begin() + static_cast<std::ptrdiff_t>(bytes), taken.end(),
                            [](std::byte byte) { return byte == std::byte{9}; }));
  }
}

}  // namespace
}  // namespace tutti
