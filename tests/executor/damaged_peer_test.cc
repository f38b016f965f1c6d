// A peer whose memory is damaged writes anything into the lines that it shares with this rank: nothing is read where
// nothing may be read, and the call fails with that rank's name.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/registry.h"
#include "executor/point_to_point.h"
#include "executor/signature.h"
#include "support/world.h"
#include "transport/messages.h"
#include "transport/shm/shm_endpoint.h"

namespace tutti {
namespace {

constexpr std::size_t kCount = 100;
constexpr std::uint32_t kBytes = kCount * sizeof(float);
constexpr std::size_t kChunkBytes = 4096;

struct Damage {
  const char* what;
  Descriptor descriptor;
  std::size_t count = kCount;
};
const Damage kDamages[] = {
    {"a slot far beyond the peer's", {Way::kSlot, 0x3FFFFFFF, kBytes}},
    {"a slot that ends beyond the peer's", {Way::kSlot, 0, 0xFFFFFFFF}},
    {"more in a line than fits", {Way::kInline, 0, kBytes}},
    {"a place in memory that was never offered", {Way::kRead, 0, kBytes}},
    {"a message that was written by nobody", {Way::kWritten, 0, kBytes}},
    {"less than the call says", {Way::kSlot, 0, 4}},
    {"a short message in a slot far beyond the peer's", {Way::kSlot, 0x3FFFFFFF, 4}, 1},
    {"a short message that was written by nobody", {Way::kWritten, 0, 4}, 1},
};

class DamagedPeer : public testing::TestWithParam<const char*> {};

TEST_P(DamagedPeer, FailsACollectiveWithItsName) {
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.what);
    World world(2, {});
    const Plan plan(*find_algorithm(Collective::kAllReduce, GetParam()), world.layout(0));
    std::vector<float> in(kCount, 1), out(kCount);
    Call call;
    call.plan = &plan;
    call.reduction = {DataType::kF32, kSum, 2, false, false};
    call.input = reinterpret_cast<const std::byte*>(in.data());
    call.output = reinterpret_cast<std::byte*>(out.data());
    call.element_bytes = sizeof(float);
    call.sequence = 1;
    call.signature =
        signature_of({Collective::kAllReduce, DataType::kF32, ReduceOp::Kind::kSum, 0, damage.count}, call.sequence);
    world.executor(0).start(call, damage.count, kChunkBytes);
    Endpoint& peer = world.channel(1, 0).endpoint(0);
    std::memset(next_line(peer).payload, 0x5A, Line::kPayload);
    publish_line(peer, damage.descriptor, call.signature, {});
    Progress progress = Progress::kAgain;
    for (int turn = 0; turn < 100 && progress == Progress::kAgain; ++turn) progress = world.executor(0).progress(call);
    ASSERT_EQ(progress, Progress::kFailed);
    ASSERT_TRUE(world.health(0).failed());
    EXPECT_EQ(world.health(0).reason().peer(), 1);
    EXPECT_EQ(world.health(0).reason().code(), ErrorCode::kRemote);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, DamagedPeer, testing::Values("one_shot", "two_shot", "ring"),
                         [](const auto& parameters) { return std::string(parameters.param); });

// Nothing could ever be sent to it again.
TEST(DamagedPeerCredit, ForMessagesThatWereNeverSentFailsTheCallWithItsName) {
  World world(2, {});
  const Plan plan(*find_algorithm(Collective::kAllReduce, "one_shot"), world.layout(0));
  float in = 1, out = 0;
  Call call;
  call.plan = &plan;
  call.reduction = {DataType::kF32, kSum, 2, false, false};
  call.input = reinterpret_cast<const std::byte*>(&in);
  call.output = reinterpret_cast<std::byte*>(&out);
  call.element_bytes = sizeof(float);
  call.sequence = 1;
  call.signature = signature_of({Collective::kAllReduce, DataType::kF32, ReduceOp::Kind::kSum, 0, 1}, 1);
  publish(*world.channel(1, 0).endpoint(0).credit_out, 1000);  // observed by refresh_acknowledged() at rank 0
  world.executor(0).start(call, 1, kChunkBytes);
  Progress progress = Progress::kAgain;
  for (int turn = 0; turn < 100 && progress == Progress::kAgain; ++turn) progress = world.executor(0).progress(call);
  EXPECT_EQ(progress, Progress::kFailed);
  ASSERT_TRUE(world.health(0).failed());
  EXPECT_EQ(world.health(0).reason().peer(), 1);
}

// Sends and receives of rank 0; rank 1 is this test.
struct DamagedSender {
  struct Announcement {
    std::uint64_t number, count;
    std::int32_t tag, type;
  };

  DamagedSender() {
    layout_.members = layout_.ranks = 2;
    segment_ = Segment::create(layout_.segment_bytes());
    PointToPoint::Wiring wiring;
    wiring.slots = segment_.data() + layout_.area(0);
    wiring.piece_bytes = layout_.piece_bytes;
    wiring.pieces = [this](int peer) { return layout_.pieces(static_cast<std::uint32_t>(peer)); };
    wiring.reserve = [](std::size_t, std::size_t) {};
    wiring.connect = [this](PointToPoint::Connection connection, Endpoint& endpoint) {
      connect_shared_memory(endpoint, layout_, segment_.data(),
                            layout_.channels + static_cast<std::uint32_t>(connection), 0, endpoint.peer);
    };
    rank_ = std::make_unique<PointToPoint>(2, health_, std::move(wiring));
    for (std::uint32_t c = 0; c < PointToPoint::kConnections; ++c) {
      connect_shared_memory(peer_[c], layout_, segment_.data(), layout_.channels + c, 1, 0);
    }
    transfer_.peer = 1;
    transfer_.count = bytes_.size();
    transfer_.output = bytes_.data();
  }

  // enclosed: bytes that seem to come with it.
  void announce(std::int32_t type, std::uint32_t enclosed = 0) {
    announce(type, {Way::kInline, 0, static_cast<std::uint32_t>(sizeof(Announcement)) + enclosed});
  }
  // descriptor: where the message seems to lie.
  void announce(std::int32_t type, Descriptor descriptor) {
    const Announcement announcement = {1, transfer_.count, 0, type};
    std::memcpy(next_line(peer_[0]).payload, &announcement, sizeof announcement);
    publish_line(peer_[0], descriptor, 1, {});
  }

  Health health_{2};
  SegmentLayout layout_;
  Segment segment_;
  std::unique_ptr<PointToPoint> rank_;
  Endpoint peer_[PointToPoint::kConnections];
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1000);
  Transfer transfer_;
};

TEST(DamagedSenders, OfPiecesFailsAReceiveWithItsName) {
  const auto u8 = static_cast<std::int32_t>(DataType::kU8);
  const std::pair<Descriptor, std::uint64_t> damages[] = {
      {{Way::kSlot, 0x3FFFFFFF, 1000}, 1}, {{Way::kSlot, 0, 2000}, 1}, {{Way::kInline, 0, 1000}, 1},
      {{Way::kRead, 0, 1000}, 1},          {{Way::kSlot, 0, 0}, 1},    {{Way::kSlot, 0, 1000}, 7},
  };
  for (const auto& [descriptor, number] : damages) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(descriptor.way) << " " << descriptor.length << " " << number);
    DamagedSender sender;
    sender.announce(u8);
    EXPECT_EQ(sender.rank_->progress_receive(sender.transfer_), Progress::kAgain);
    publish_line(sender.peer_[2], descriptor, number, {});
    EXPECT_EQ(sender.rank_->progress_receive(sender.transfer_), Progress::kFailed);
    ASSERT_TRUE(sender.health_.failed());
    EXPECT_EQ(sender.health_.reason().peer(), 1);
  }
}

TEST(DamagedSenders, OfEarlyMessagesFailAReceiveWithTheirName) {
  // Where a message of 1000 bytes seems to lie, and how: outside, longer and shorter than it is, nowhere.
  const Descriptor damages[] = {{Way::kSlot, 0x3FFFFFFF, 1000}, {Way::kSlot, 0, 1001},
                                {Way::kSlot, 0, 999},           {Way::kSlot, 0, 0},
                                {Way::kRead, 0, 1000},          {Way::kWritten, 0, 1000}};
  for (const Descriptor& descriptor : damages) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(descriptor.way) << " " << descriptor.length);
    DamagedSender sender;
    sender.announce(static_cast<std::int32_t>(DataType::kU8), descriptor);
    EXPECT_EQ(sender.rank_->progress_receive(sender.transfer_), Progress::kFailed);
    ASSERT_TRUE(sender.health_.failed());
    EXPECT_EQ(sender.health_.reason().peer(), 1);
    sender.rank_->withdraw(sender.transfer_);
  }
}

TEST(DamagedSenders, OfATypeThatDoesNotExistFailsAReceiveWithItsName) {
  DamagedSender sender;
  sender.announce(9999);
  EXPECT_EQ(sender.rank_->progress_receive(sender.transfer_), Progress::kFailed);
  ASSERT_TRUE(sender.health_.failed());
  EXPECT_EQ(sender.health_.reason().peer(), 1);
  sender.rank_->withdraw(sender.transfer_);
}

TEST(DamagedSenders, OfMoreOrLessThanTheyAnnounceFailAReceiveWithTheirName) {
  // Bytes that are received, and that come: shorter and longer messages, more than a line has, less than nothing.
  const std::pair<std::size_t, std::uint32_t> damages[] = {{8, 0},    {8, 7},    {8, 9}, {8, 73},
                                                           {1000, 8}, {8, ~23u}, {0, 1}};
  for (const auto& [count, enclosed] : damages) {
    SCOPED_TRACE(testing::Message() << count << " " << enclosed);
    DamagedSender sender;
    sender.transfer_.count = count;
    sender.announce(static_cast<std::int32_t>(DataType::kU8), enclosed);
    EXPECT_EQ(sender.rank_->progress_receive(sender.transfer_), Progress::kFailed);
    ASSERT_TRUE(sender.health_.failed());
    EXPECT_EQ(sender.health_.reason().peer(), 1);
    sender.rank_->withdraw(sender.transfer_);
  }
}

}  // namespace
}  // namespace tutti
