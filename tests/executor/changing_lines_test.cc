// A peer whose memory is damaged changes its lines while this rank looks at them: between the check of a message and
// its use, and back. Whatever was checked is what is used.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/registry.h"
#include "executor/host_executor.h"
#include "executor/point_to_point.h"
#include "schedule/placement.h"
#include "transport/messages.h"
#include "transport/shm/peer_segments.h"

namespace tutti {
namespace {

// Values may change while they are read: they are only values. To the thread sanitizer that is a race all the same.
#if defined(__SANITIZE_THREAD__)
constexpr bool kMayChange = false;
#else
constexpr bool kMayChange = true;
#endif
constexpr const char* kWhyNot = "the thread sanitizer reports the values that change while they are read";

constexpr std::uint32_t kWindow = 4;
constexpr std::size_t kRing = 1 << 16;
constexpr std::uint64_t kSignature = 0x5157;
constexpr int kCalls = 30'000;

// Writes one word after the other of a line, in turn what is right and what is wrong, until it is destroyed.
class Changing {
 public:
  struct Change {
    std::uint64_t* word;
    std::uint64_t right;
    std::uint64_t wrong;
  };
  explicit Changing(std::vector<Change> changes)
      : changes_(std::move(changes)), thread_([this] {
          for (std::size_t i = 0; peek(over_) == 0; ++i) {
            const Change& change = changes_[i % changes_.size()];
            __atomic_store_n(change.word, change.wrong, __ATOMIC_RELAXED);
            for (int turn = 0; turn < 20; ++turn) relax_cpu();
            __atomic_store_n(change.word, change.right, __ATOMIC_RELAXED);
            for (int turn = 0; turn < 60; ++turn) relax_cpu();
          }
        }) {}
  ~Changing() {
    note(over_, 1);
    thread_.join();
  }

 private:
  const std::vector<Change> changes_;
  Word over_{0};
  std::thread thread_;
};

std::uint64_t* word_of(Word& word) { return reinterpret_cast<std::uint64_t*>(&word); }
std::uint64_t* word_of(std::byte* payload, std::size_t index) {
  return reinterpret_cast<std::uint64_t*>(payload) + index;
}

struct Shared {
  std::unique_ptr<Line[]> out = std::make_unique<Line[]>(kWindow);
  std::unique_ptr<Line[]> in = std::make_unique<Line[]>(kWindow);
  Line notice{};
  Word credit_out{0}, credit_in{0}, progress_in{0}, confirmed_in{0};
  std::unique_ptr<std::byte[]> in_slots = std::make_unique<std::byte[]>(2 * kRing);

  void connect(Endpoint& endpoint) {
    endpoint.out = out.get();
    endpoint.in = in.get();
    endpoint.in_slots = in_slots.get();
    endpoint.in_slots_bytes = 2 * kRing;
    endpoint.credit_out = &credit_out;
    endpoint.credit_in = &credit_in;
    endpoint.progress_in = &progress_in;
    endpoint.confirmed_in = &confirmed_in;
    endpoint.notice_in = &notice;
    endpoint.window = kWindow;
  }
};

class ChangingLines : public testing::TestWithParam<std::tuple<const char*, std::size_t>> {};

TEST_P(ChangingLines, OfACollectiveAreUsedAsTheyWereChecked_D9) {
  if (!kMayChange) GTEST_SKIP() << kWhyNot;
  const auto& [algorithm, count] = GetParam();
  static const Placement placement(2);
  Plan plan(*find_algorithm(Collective::kAllReduce, algorithm), placement.layout(0));
  Shared shared;
  const auto bytes = static_cast<std::uint32_t>(count * sizeof(float));
  const Way way = bytes <= Line::kPayload ? Way::kInline : Way::kSlot;
  std::vector<Changing::Change> changes;
  for (std::uint64_t number = 1; number < kWindow; ++number) {
    Line& line = shared.in[number];
    line.signature = kSignature;
    line.descriptor = Descriptor{way, 0, bytes}.pack();
    note(line.epoch, number);
    for (const Descriptor& wrong : {Descriptor{Way::kSlot, 0x3FFFFFFF, bytes}, Descriptor{Way::kRead, 0, bytes},
                                    Descriptor{Way::kWritten, 0, bytes}, Descriptor{way, 0, ~0u}}) {
      changes.push_back({&line.descriptor, line.descriptor, wrong.pack()});
    }
    changes.push_back({word_of(line.epoch), number, number + 100});
    changes.push_back({&line.credit, 0, ~std::uint64_t{0} >> 1});
    changes.push_back({word_of(line.payload, 0), 0, 1});                  // of Notes: a place in a segment
    changes.push_back({word_of(line.payload, 3), 0, ~std::uint64_t{0}});  // where an output lies, and an offer
  }
  const Changing damaged(std::move(changes));
  const auto slots = std::make_unique<std::byte[]>(2 * kRing);
  std::vector<float> data(count), result(count);
  int done = 0;
  for (int i = 0; i < kCalls; ++i) {
    Health health(2);
    PeerSegments segments(shared.confirmed_in);
    std::vector<std::unique_ptr<Channel>> channels;
    channels.push_back(std::make_unique<Channel>(placement.layout(0), 0, slots.get(), SlotRing(0, kRing, 0),
                                                 SlotRing(kRing, kRing, 1)));
    shared.connect(channels[0]->endpoint(1));
    channels[0]->endpoint(1).segments = &segments;
    Word progress{0};
    HostExecutor executor(ExecutorParts{channels, {}, health, progress});
    Call call;
    call.plan = &plan;
    call.reduction = {DataType::kF32, kSum, 2, false, false};
    call.input = reinterpret_cast<const std::byte*>(data.data());
    call.output = reinterpret_cast<std::byte*>(result.data());
    call.element_bytes = sizeof(float);
    call.sequence = 1;
    call.signature = kSignature;
    executor.start(call, count, 8192);
    Progress p = Progress::kAgain;
    for (int turn = 0; turn < 20 && p == Progress::kAgain; ++turn) p = executor.progress(call);
    done += p == Progress::kDone ? 1 : 0;
    if (health.failed()) {
      ASSERT_EQ(health.reason().peer(), 1);
    }
  }
  EXPECT_GT(done, 0) << "its lines are right most of the time";
}

INSTANTIATE_TEST_SUITE_P(Algorithms, ChangingLines,
                         testing::Combine(testing::Values("one_shot", "ring"), testing::Values(4, 400, 2048)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + std::to_string(std::get<1>(info.param));
                         });

TEST(ChangingTransfers, AreUsedAsTheyWereChecked_D9) {
  if (!kMayChange) GTEST_SKIP() << kWhyNot;
  constexpr std::size_t kBytes = 3000;
  std::array<Shared, PointToPoint::kConnections> shared;
  const auto u8 = static_cast<std::uint64_t>(DataType::kU8);
  std::vector<Changing::Change> changes;
  // An announcement with tag 0, early or not, and a piece; grants.
  Line& announced = shared[0].in[1];
  const std::array<std::uint64_t, 3> announcement{1, kBytes, u8 << 32};
  std::memcpy(announced.payload, announcement.data(), sizeof(announcement));
  announced.descriptor = Descriptor{Way::kSlot, 0, kBytes}.pack();
  note(announced.epoch, 1);
  for (const Descriptor& wrong : {Descriptor{Way::kSlot, 0x3FFFFFFF, kBytes}, Descriptor{Way::kSlot, 0, ~0u},
                                  Descriptor{Way::kInline, 0, 24}, Descriptor{Way::kInline, 0, ~0u}}) {
    changes.push_back({&announced.descriptor, announced.descriptor, wrong.pack()});
  }
  changes.push_back({word_of(announced.payload, 1), kBytes, ~std::uint64_t{0}});
  changes.push_back({word_of(announced.payload, 2), u8 << 32, std::uint64_t{9999} << 32});
  changes.push_back({word_of(announced.epoch), 1, 100});
  Line& piece = shared[2].in[1];
  piece.signature = 1;
  piece.descriptor = Descriptor{Way::kSlot, 0, kBytes}.pack();
  note(piece.epoch, 1);
  for (const Descriptor& wrong : {Descriptor{Way::kSlot, 0x3FFFFFFF, kBytes}, Descriptor{Way::kSlot, 0, 2 * kRing},
                                  Descriptor{Way::kInline, 0, kBytes}}) {
    changes.push_back({&piece.descriptor, piece.descriptor, wrong.pack()});
  }
  changes.push_back({&piece.credit, 0, ~std::uint64_t{0}});
  Line& grant = shared[1].in[1];
  std::memcpy(grant.payload, announcement.data(), 8);
  note(grant.epoch, 1);
  changes.push_back({word_of(grant.payload, 0), 1, 77});
  changes.push_back({word_of(grant.epoch), 1, 100});
  const Changing damaged(std::move(changes));
  const auto slots = std::make_unique<std::byte[]>(4 * kRing);
  const auto buffer = std::make_unique<std::byte[]>(kBytes);  // of exactly the size
  int done = 0;
  for (int i = 0; i < kCalls; ++i) {
    Health health(2);
    PointToPoint::Wiring wiring;
    wiring.slots = slots.get();
    wiring.piece_bytes = 1024;
    wiring.pieces = [](int) { return kRing; };
    wiring.reserve = [](std::size_t, std::size_t) {};
    wiring.connect = [&](PointToPoint::Connection connection, Endpoint& endpoint) {
      shared[static_cast<std::size_t>(connection)].connect(endpoint);
    };
    PointToPoint rank(2, health, std::move(wiring));
    Transfer transfer;
    transfer.peer = 1;
    transfer.count = kBytes;
    transfer.input = transfer.output = buffer.get();
    const bool sending = i % 4 == 0;
    Progress p = Progress::kAgain;
    for (int turn = 0; turn < 20 && p == Progress::kAgain; ++turn) {
      p = sending ? rank.progress_send(transfer) : rank.progress_receive(transfer);
    }
    done += p == Progress::kDone ? 1 : 0;
    if (health.failed()) {
      ASSERT_EQ(health.reason().peer(), 1);
    }
    rank.withdraw(transfer);
  }
  EXPECT_GT(done, 0);
}

}  // namespace
}  // namespace tutti
