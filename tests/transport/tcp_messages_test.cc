// Messages between endpoints whose connection works: sizes, ways, windows, credits, posted buffers.

#include <atomic>
#include <cstdlib>
#include <new>

#include "transport/tcp_support.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
}

// Not inlined: the compiler would see through one of the pair and complain about the other.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti {
namespace {

constexpr std::uint32_t kMax = 1024 * 1024 + 5;
constexpr std::uint64_t kSignature = 0xFEDCBA9876543210;

TcpLimits limits(std::uint32_t window = 4) {
  TcpLimits limits;
  limits.window = window;
  limits.max_message_bytes = kMax;
  limits.lost_grace = std::chrono::milliseconds(50);
  return limits;
}

class TcpMessageSizes : public testing::TestWithParam<std::uint32_t> {};

TEST_P(TcpMessageSizes, ArriveAsTheyWereSentBothWays) {
  TcpRanks ranks(2, limits());
  for (int from = 0; from < 2; ++from) {
    Endpoint& out = ranks.endpoint(from, 1 - from);
    Endpoint& in = ranks.endpoint(1 - from, from);
    for (const Way way : {Way::kRead, GetParam() <= Line::kPayload ? Way::kInline : Way::kSlot}) {
      const auto data = pattern(GetParam(), in.received + 10 * from);
      send(out, data, kSignature + in.received, way);
      ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
      const Line& line = *arrived(in);
      EXPECT_EQ(line.signature, kSignature + in.received);
      EXPECT_EQ(way_of(line), GetParam() <= Line::kPayload ? Way::kInline : Way::kSlot);
      EXPECT_TRUE(payload_of(in, line) == data);
      take(in, line);
    }
  }
}

TEST_P(TcpMessageSizes, GoStraightToThePostedBuffer) {
  TcpRanks ranks(2, limits());
  Endpoint& in = ranks.endpoint(1, 0);
  std::vector<std::byte> buffer(GetParam() + 1, std::byte{0xAA});
  const auto data = pattern(GetParam(), 1);
  ranks[1].tcp->post(in, buffer.data(), GetParam(), kSignature);
  send(ranks.endpoint(0, 1), data, kSignature, Way::kRead);
  ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
  EXPECT_EQ(way_of(*arrived(in)), Way::kWritten);
  EXPECT_TRUE(payload_of(in, *arrived(in), buffer.data()) == data);
  EXPECT_EQ(buffer.back(), std::byte{0xAA}) << "written past the end";
}

INSTANTIATE_TEST_SUITE_P(Sizes, TcpMessageSizes, testing::Values(0, 1, 96, 97, 8192, 65536, 1048576, kMax));

TEST(TcpMessages, WithAnotherLengthOrSignatureAvoidThePostedBuffer) {
  TcpRanks ranks(2, limits());
  Endpoint& in = ranks.endpoint(1, 0);
  const std::vector<std::byte> untouched(5000, std::byte{0xAA});
  for (const auto& [length, signature] : {std::pair{5000u, kSignature + 1}, std::pair{4999u, kSignature}}) {
    auto buffer = untouched;
    ranks[1].tcp->post(in, buffer.data(), 5000, kSignature);
    const auto data = pattern(length, length);
    send(ranks.endpoint(0, 1), data, signature, Way::kRead);
    ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
    EXPECT_EQ(way_of(*arrived(in)), Way::kSlot);
    EXPECT_TRUE(payload_of(in, *arrived(in)) == data);
    EXPECT_TRUE(buffer == untouched);
    take(in, *arrived(in));
  }
}

TEST(TcpMessages, WithdrawnWhileArrivingContinueInASlot) {
  TcpRanks ranks(2, limits());
  Endpoint& in = ranks.endpoint(1, 0);
  const auto data = pattern(kMax, 3);
  std::vector<std::byte> buffer(kMax, std::byte{0});
  ranks[1].tcp->post(in, buffer.data(), kMax, kSignature);
  send(ranks.endpoint(0, 1), data, kSignature, Way::kRead);
  // Until the first piece is there, but not all of it: one turn is smaller than the message.
  ASSERT_TRUE(ranks.until([&] { return buffer[0] == data[0] && buffer[1] == data[1]; }));
  ASSERT_EQ(arrived(in), nullptr);
  ranks[1].tcp->withdraw(in);
  std::fill(buffer.begin(), buffer.end(), std::byte{0xAA});
  ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
  EXPECT_EQ(way_of(*arrived(in)), Way::kSlot);
  EXPECT_TRUE(payload_of(in, *arrived(in)) == data);
  EXPECT_EQ(std::count(buffer.begin(), buffer.end(), std::byte{0xAA}), kMax) << "written after withdraw()";
}

TEST(TcpMessages, WithdrawnBeforeTheyArriveNeverTouchTheBuffer) {
  TcpRanks ranks(2, limits());
  Endpoint& in = ranks.endpoint(1, 0);
  std::vector<std::byte> buffer(200, std::byte{0xAA});
  ranks[1].tcp->post(in, buffer.data(), 200, kSignature);
  ranks[1].tcp->withdraw(in);
  send(ranks.endpoint(0, 1), pattern(200, 1), kSignature, Way::kRead);
  ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
  EXPECT_EQ(std::count(buffer.begin(), buffer.end(), std::byte{0xAA}), 200);
}

TEST(TcpMessages, WaitForCreditOnceTheWindowIsFull) {
  for (const std::uint32_t window : {1u, 2u, 8u}) {
    TcpRanks ranks(2, limits(window));
    Endpoint& out = ranks.endpoint(0, 1);
    Endpoint& in = ranks.endpoint(1, 0);
    for (std::uint32_t i = 0; i < window; ++i) send(out, pattern(300, i), i, Way::kSlot);
    ranks.settle();
    EXPECT_FALSE(can_publish(out)) << "nothing was consumed";
    for (std::uint32_t i = 0; i < window; ++i) {
      ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
      EXPECT_TRUE(payload_of(in, *arrived(in)) == pattern(300, i));
      take(in, *arrived(in));
    }
    ASSERT_TRUE(ranks.until([&] { return can_publish(out); }));
    while (!ranks[1].tcp->flush()) {
    }
    ASSERT_TRUE(ranks.until([&] { return can_publish(out), out.acknowledged == window; }));
  }
}

TEST(TcpMessages, AcknowledgedByLessThanHalfAWindowWaitUntilNothingElseMovesOrForAFlush) {
  TcpRanks ranks(2, limits(8));
  Endpoint& out = ranks.endpoint(0, 1);
  Endpoint& in = ranks.endpoint(1, 0);
  send(out, pattern(10, 1), 1, Way::kInline);
  ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
  take(in, *arrived(in));
  ranks[1].tcp->progress();
  ranks.wait_a_moment(0);
  EXPECT_EQ(observe(*out.credit_in), 0u);
  EXPECT_TRUE(ranks.until([&] { return observe(*out.credit_in) == 1; }));

  send(out, pattern(10, 2), 1, Way::kInline);
  ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
  take(in, *arrived(in));
  EXPECT_TRUE(ranks[1].tcp->flush());
  EXPECT_TRUE(ranks.until(0, [&] { return observe(*out.credit_in) == 2; }));
}

TEST(TcpMessages, AreWrittenWhenTheirBuffersMayChangeThoughCreditIsStillOwed) {
  TcpRanks ranks(2, limits(8));
  Endpoint& out = ranks.endpoint(0, 1);
  Endpoint& in = ranks.endpoint(1, 0);
  const auto original = pattern(kMax, 1);
  auto data = original;
  send(ranks.endpoint(1, 0), pattern(10, 1), 1, Way::kInline);
  ASSERT_TRUE(ranks.until([&] { return arrived(out) != nullptr; }));
  take(out, *arrived(out));
  for (int i = 0; i < 8; ++i) send(out, data, 1, Way::kRead);
  EXPECT_FALSE(ranks[0].tcp->written()) << "more than the buffers on the way hold";
  ASSERT_TRUE(ranks.until([&] { return ranks[0].tcp->written(); }));
  std::fill(data.begin(), data.end(), std::byte{0});
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
    EXPECT_TRUE(payload_of(in, *arrived(in)) == original);
    take(in, *arrived(in));
  }
}

TEST(TcpMessages, CarryCreditForTheOtherWay) {
  TcpRanks ranks(2, limits(8));
  Endpoint& a = ranks.endpoint(0, 1);
  Endpoint& b = ranks.endpoint(1, 0);
  send(a, pattern(10, 1), 1, Way::kInline);
  ASSERT_TRUE(ranks.until([&] { return arrived(b) != nullptr; }));
  take(b, *arrived(b));
  send(b, pattern(10, 2), 1, Way::kInline);
  ASSERT_TRUE(ranks.until([&] { return arrived(a) != nullptr; }));
  EXPECT_EQ(arrived(a)->credit, 1u);
  EXPECT_EQ(observe(*a.credit_in), 1u);
}

TEST(TcpMessages, OfManyChannelsDoNotWaitForEachOther) {
  TcpRanks ranks(2, limits());
  const int channels = TcpLimits().channels;
  for (int c = 0; c < channels; ++c) {
    for (int i = 0; i < 4; ++i) send(ranks.endpoint(0, 1, c), pattern(20000 + c, 10 * c + i), c, Way::kSlot);
  }
  // Channel 0 is never read; its window is full, the others go on.
  for (int round = 0; round < 20; ++round) {
    for (int c = 1; c < channels; ++c) {
      Endpoint& in = ranks.endpoint(1, 0, c);
      ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
      if (round < 4) {
        EXPECT_TRUE(payload_of(in, *arrived(in)) == pattern(20000 + c, 10 * c + round));
      }
      take(in, *arrived(in));
      Endpoint& out = ranks.endpoint(0, 1, c);
      ASSERT_TRUE(ranks.until([&] { return can_publish(out); }));
      send(out, pattern(100, c), c, Way::kSlot);
    }
  }
}

TEST(TcpMessages, CrossTinySocketBuffers) {
  TcpLimits tiny = limits();
  tiny.socket_buffer_bytes = 1;  // the system rounds up to its least
  TcpRanks ranks(2, tiny, TcpRanks::kSocketPairs);
  const auto data = pattern(200000, 7);
  for (int from = 0; from < 2; ++from) {
    for (int i = 0; i < 4; ++i) send(ranks.endpoint(from, 1 - from), data, i, Way::kRead);
  }
  for (int to = 0; to < 2; ++to) {
    Endpoint& in = ranks.endpoint(to, 1 - to);
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; }));
      EXPECT_TRUE(payload_of(in, *arrived(in)) == data);
      take(in, *arrived(in));
    }
  }
}

TEST(TcpMessages, AllocateNothingOnceTheConnectionIsThere) {
  TcpRanks ranks(2, limits());
  const auto data = pattern(70000, 1);
  std::vector<std::byte> buffer(data.size());
  std::uint64_t before = 0;
  for (int i = 0; i < 50; ++i) {
    if (i == 10) before = allocations.load();
    for (int from = 0; from < 2; ++from) {
      Endpoint& in = ranks.endpoint(1 - from, from);
      if (i % 2 == 0) ranks[1 - from].tcp->post(in, buffer.data(), 70000, 5);
      send(ranks.endpoint(from, 1 - from), data, 5, Way::kRead);
      while (arrived(in) == nullptr) {
        ranks[0].tcp->progress();
        ranks[1].tcp->progress();
      }
      take(in, *arrived(in));
      ranks[1 - from].tcp->flush();
    }
  }
  EXPECT_EQ(allocations.load(), before);
}

}  // namespace
}  // namespace tutti
