// Connections: when they come, which of two is used, how they end.

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <thread>

#include "transport/tcp_support.h"

namespace tutti {
namespace {

TcpLimits limits() {
  TcpLimits limits;
  limits.max_message_bytes = 4 * 1024 * 1024;
  limits.lost_grace = std::chrono::milliseconds(50);
  return limits;
}

bool exchange(TcpRanks& ranks) {
  const auto there = pattern(1000, 1);
  const auto back = pattern(2000, 2);
  send(ranks.endpoint(0, 1), there, 1, Way::kSlot);
  send(ranks.endpoint(1, 0), back, 1, Way::kSlot);
  Endpoint& at_0 = ranks.endpoint(0, 1);
  Endpoint& at_1 = ranks.endpoint(1, 0);
  if (!ranks.until([&] { return arrived(at_0) != nullptr && arrived(at_1) != nullptr; })) return false;
  const bool right = payload_of(at_1, *arrived(at_1)) == there && payload_of(at_0, *arrived(at_0)) == back;
  take(at_0, *arrived(at_0));
  take(at_1, *arrived(at_1));
  return right;
}

TEST(TcpConnection, IsAskedForOnceByWhoHasSomethingToSay) {
  TcpRanks ranks(3, limits(), TcpRanks::kOnDemand);
  EXPECT_TRUE(ranks[0].tcp->flush());
  send(ranks.endpoint(0, 1), pattern(5, 1), 1, Way::kInline);
  send(ranks.endpoint(0, 1, 2), pattern(5, 1), 1, Way::kInline);
  EXPECT_EQ(ranks[0].requests, std::vector{1});
  EXPECT_TRUE(ranks[1].requests.empty());
  EXPECT_FALSE(ranks[0].tcp->flush());
}

TEST(TcpConnection, ThatComesLateLosesNothing) {
  for (const int opener : {0, 1}) {
    TcpRanks ranks(2, limits(), TcpRanks::kOnDemand);
    std::vector<std::vector<std::byte>> sent;
    for (int i = 0; i < 4; ++i) {
      sent.push_back(pattern(3000 * i + 1, i));
      send(ranks.endpoint(opener, 1 - opener), sent.back(), 1, Way::kRead);
    }
    ranks.settle();
    ranks.connect(opener, 1 - opener);
    Endpoint& in = ranks.endpoint(1 - opener, opener);
    for (const auto& data : sent) {
      ASSERT_TRUE(ranks.until([&] { return arrived(in) != nullptr; })) << "opened by rank " << opener;
      EXPECT_TRUE(payload_of(in, *arrived(in)) == data);
      take(in, *arrived(in));
    }
  }
}

TEST(TcpConnection, OfTheLowerRankWinsWhenBothOpenOneInWhateverOrderTheyCome) {
  // Four events, each rank sees its own connection and the other's in either order.
  for (int order = 0; order < 24; ++order) {
    TcpRanks ranks(2, limits(), TcpRanks::kOnDemand);
    send(ranks.endpoint(0, 1), pattern(3, 0), 1, Way::kInline);
    send(ranks.endpoint(1, 0), pattern(3, 1), 1, Way::kInline);
    auto [a_here, a_there] = loopback_pair();  // opened by rank 0
    auto [b_here, b_there] = loopback_pair();  // opened by rank 1
    const int kept = a_here.get();
    const int closed = b_there.get();
    int events[4] = {0, 1, 2, 3};
    for (int i = 0, n = order; i < 4; n /= 4 - i, ++i) std::swap(events[i], events[i + n % (4 - i)]);
    for (const int event : events) {
      if (event == 0) ranks[0].tcp->attach(1, std::move(a_here), true);
      if (event == 1) ranks[1].tcp->attach(0, std::move(a_there), false);
      if (event == 2) ranks[1].tcp->attach(0, std::move(b_here), true);
      if (event == 3) ranks[0].tcp->attach(1, std::move(b_there), false);
      ranks.settle();
    }
    Endpoint& at_0 = ranks.endpoint(0, 1);
    Endpoint& at_1 = ranks.endpoint(1, 0);
    ASSERT_TRUE(ranks.until([&] { return arrived(at_0) != nullptr && arrived(at_1) != nullptr; })) << "order " << order;
    take(at_0, *arrived(at_0));
    take(at_1, *arrived(at_1));
    EXPECT_TRUE(exchange(ranks)) << "order " << order;
    EXPECT_NE(::fcntl(kept, F_GETFD), -1);
    EXPECT_TRUE(ranks.until([&] { return ::fcntl(closed, F_GETFD) == -1; })) << "the other connection stays open";
    EXPECT_FALSE(ranks[0].health->failed());
    EXPECT_FALSE(ranks[1].health->failed());
  }
}

TEST(TcpConnection, OfTheHigherRankIsUsedWhenTheLowerOpensNone) {
  TcpRanks ranks(2, limits(), TcpRanks::kOnDemand);
  ranks.connect(1, 0);
  EXPECT_TRUE(exchange(ranks));
  EXPECT_TRUE(ranks[0].requests.empty());
}

// The lower rank has asked for a connection of its own, which cannot be opened.
TEST(TcpConnection, OfTheHigherRankIsUsedWhenTheLowerWaitsForIt_F92) {
  TcpRanks ranks(2, limits(), TcpRanks::kOnDemand);
  send(ranks.endpoint(0, 1), pattern(3, 0), 1, Way::kInline);
  auto [refused_here, refused_there] = loopback_pair();
  ranks[1].tcp->attach(0, std::move(refused_here), true);
  ranks[0].tcp->attach(1, std::move(refused_there), false);
  ranks.settle();
  EXPECT_EQ(arrived(ranks.endpoint(1, 0)), nullptr) << "its own may still be on its way";
  ranks[0].tcp->await(1, true);
  ranks.connect(1, 0);
  Endpoint& there = ranks.endpoint(1, 0);
  ASSERT_TRUE(ranks.until([&] { return arrived(there) != nullptr; }));
  take(there, *arrived(there));
  EXPECT_TRUE(exchange(ranks));
}

TEST(TcpConnection, MakesItsDescriptorReadableWhenThereIsWork) {
  TcpRanks ranks(2, limits());
  EXPECT_TRUE(exchange(ranks));
  const auto readable = [&](int rank, int wait_ms) {
    pollfd entry{.fd = ranks[rank].tcp->descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, wait_ms) == 1;
  };
  const auto is_quiet = [&] { return !readable(0, 0) && !readable(1, 0); };
  ranks.settle();
  EXPECT_TRUE(ranks.until(is_quiet));
  send(ranks.endpoint(0, 1), pattern(3, 0), 1, Way::kInline);
  EXPECT_TRUE(readable(1, 5000));
  EXPECT_FALSE(readable(0, 0));
  ranks.settle();
  EXPECT_TRUE(ranks.until(is_quiet));

  // A message larger than all buffers on the way: the sender wants to hear when there is room.
  const auto large = pattern(4 * 1024 * 1024, 1);
  send(ranks.endpoint(0, 1), large, 1, Way::kRead);
  while (ranks[0].tcp->progress()) {
  }
  EXPECT_TRUE(ranks.until(0, [&] { return !readable(0, 0); })) << "there is no room for long";
  while (ranks[1].tcp->progress()) {
  }
  EXPECT_TRUE(readable(0, 5000));
  ranks.settle();
  EXPECT_TRUE(ranks.until(is_quiet));
}

TEST(TcpConnection, EndedWithNothingOutstandingIsNoError) {
  TcpRanks ranks(2, limits());
  EXPECT_TRUE(exchange(ranks));
  while (!ranks[0].tcp->flush()) ranks[1].tcp->progress();
  while (!ranks[1].tcp->flush()) ranks[0].tcp->progress();
  ranks.settle();
  ranks[1].tcp.reset();
  const Deadline deadline = Clock::now() + 3 * limits().lost_grace;
  while (Clock::now() < deadline) ranks[0].tcp->progress();
  EXPECT_FALSE(ranks[0].health->failed());
  EXPECT_TRUE(ranks[0].tcp->flush());
  // What is said to that peer afterwards is outstanding.
  send(ranks.endpoint(0, 1), pattern(3, 0), 1, Way::kInline);
  const Deadline patience = Clock::now() + std::chrono::seconds(20);
  while (!ranks[0].health->failed() && Clock::now() < patience) ranks[0].tcp->progress();
  ASSERT_TRUE(ranks[0].health->failed());
  EXPECT_EQ(ranks[0].health->reason().peer(), 1);
}

TEST(TcpConnection, EndedInTheMiddleOfAMessageNamesThePeerAfterTheGrace) {
  const auto large = pattern(4 * 1024 * 1024, 1);
  TcpRanks ranks(2, limits());
  EXPECT_TRUE(exchange(ranks));
  send(ranks.endpoint(0, 1), large, 1, Way::kRead);
  ranks[0].health->fail(ErrorCode::kRemote, "a test ends it");  // so that its transport leaves without waiting
  ranks[0].tcp.reset();
  const Deadline patience = Clock::now() + std::chrono::seconds(20);
  while (!ranks[1].health->failed() && Clock::now() < patience) ranks[1].tcp->progress();
  ASSERT_TRUE(ranks[1].health->failed());
  const Error reason = ranks[1].health->reason();
  EXPECT_EQ(reason.code(), ErrorCode::kRemote);
  EXPECT_EQ(reason.peer(), 0);
  EXPECT_NE(std::string(reason.what()).find("the connection to rank 0"), std::string::npos) << reason.what();
}

TEST(TcpConnection, KeepsAnEarlierReasonOfTheCommunicator) {
  TcpRanks ranks(2, limits());
  EXPECT_TRUE(exchange(ranks));
  send(ranks.endpoint(1, 0), pattern(4 * 1024 * 1024, 1), 1, Way::kSlot);
  ranks[1].health->fail(ErrorCode::kRemote, "the control plane knew first", 0);
  ranks[0].tcp.reset();
  EXPECT_FALSE(ranks[1].tcp->progress());
  EXPECT_STREQ(ranks[1].health->reason().what(), "the control plane knew first");
}

TEST(TcpConnection, DeliversWhatWasFlushedBeforeItsTransportWentAlthoughThePeerStillAcknowledges) {
  TcpLimits small = limits();
  small.window = 8;
  TcpRanks ranks(2, small);
  EXPECT_TRUE(exchange(ranks));
  std::vector<std::vector<std::byte>> sent;
  for (int i = 0; i < 8; ++i) {
    if (!can_publish(ranks.endpoint(0, 1))) break;
    sent.push_back(pattern(40000, i));
    send(ranks.endpoint(0, 1), sent.back(), 1, Way::kRead);
  }
  ASSERT_GE(sent.size(), 7u);
  while (!ranks[0].tcp->flush()) {
  }
  ranks[0].tcp.reset();
  Endpoint& in = ranks.endpoint(1, 0);
  const Deadline patience = Clock::now() + std::chrono::seconds(20);
  for (const auto& data : sent) {
    while (arrived(in) == nullptr && Clock::now() < patience) ranks[1].tcp->progress();
    ASSERT_NE(arrived(in), nullptr);
    EXPECT_TRUE(payload_of(in, *arrived(in)) == data);
    take(in, *arrived(in));
  }
  EXPECT_TRUE(ranks[1].tcp->flush() || ranks[1].tcp->progress() || ranks[1].tcp->flush());
  EXPECT_FALSE(ranks[1].health->failed());
}

TEST(TcpConnection, OverAPathThatOnlySwallowsIsDeadAndOneWithoutRoomIsNot) {
  const std::chrono::milliseconds silence{30000};
  EXPECT_TRUE(silent_path(1, 5, 30000, silence));
  EXPECT_FALSE(silent_path(1, 5, 29999, silence));
  EXPECT_FALSE(silent_path(0, 0, 90000, silence)) << "idle";
  EXPECT_FALSE(silent_path(1, 0, 90000, silence)) << "just written";
}

bool set_loopback(bool up) {
  const UniqueFd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (up) request.ifr_flags = IFF_UP;
  return ::ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
}

TEST(TcpConnection, WhosePacketsAreSwallowedFailsNamingThePeer) {
  bool possible = false;
  // A namespace of its own for this thread: its loopback can be cut.
  std::thread([&] {
    possible = ::unshare(CLONE_NEWNET) == 0 && set_loopback(true);
    if (!possible) return;
    TcpLimits impatient = limits();
    impatient.silence = std::chrono::milliseconds(300);
    TcpRanks ranks(2, impatient);
    EXPECT_TRUE(exchange(ranks));
    ranks.settle();
    ASSERT_TRUE(set_loopback(false));
    send(ranks.endpoint(0, 1), pattern(10, 1), 1, Way::kInline);
    EXPECT_TRUE(ranks.until([&] { return ranks[0].health->failed(); }));
    if (!ranks[0].health->failed()) return;
    EXPECT_EQ(ranks[0].health->reason().peer(), 1);
    EXPECT_NE(std::string(ranks[0].health->reason().what()).find("carried nothing"), std::string::npos)
        << ranks[0].health->reason().what();
    ranks[1].health->fail(ErrorCode::kRemote, "nothing more to deliver");
  }).join();
  if (!possible) GTEST_SKIP() << "this needs the right to make a network namespace";
}

// A goodbye comes another way, and may be ahead of what was sent before it.
TEST(TcpConnection, EndsBehindAllThatAPeerWhichLeavesHasSent_C3) {
  TcpRanks ranks(3, limits());
  EXPECT_TRUE(ranks[0].tcp->has_all(2)) << "it never talked to this rank";
  ASSERT_TRUE(exchange(ranks));
  Endpoint& in = ranks.endpoint(0, 1);
  const auto data = pattern(300'000, 3);
  send(ranks.endpoint(1, 0), data, 1, Way::kSlot);
  ASSERT_TRUE(ranks.until([&] { return ranks[1].tcp->flush(); }));
  EXPECT_FALSE(ranks[0].tcp->has_all(1));
  ranks[1].tcp->finish();
  ASSERT_TRUE(ranks.until(0, [&] { return ranks[0].tcp->has_all(1); }));
  ASSERT_NE(arrived(in), nullptr);
  EXPECT_TRUE(payload_of(in, *arrived(in)) == data);
}

}  // namespace
}  // namespace tutti
