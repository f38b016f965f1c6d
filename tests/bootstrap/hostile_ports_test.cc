// Others at the addresses and ports where a rank is looked for: silent servers, other programs, those who took the port
// before.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/roll_call.h"
#include "bootstrap/root_server.h"
#include "bootstrap/sockets.h"
#include "door.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

TEST(Hostile, ASilentStrangerAtOneAddressDoesNotUseUpTheTimeOfTheOthers) {
  EventLoop loop;
  const Credentials own = credentials();
  const Door door(loop, own);
  const UniqueFd silent = listen_on(SocketAddress::loopback(Family::kIpv4, 0));
  const Dialer::Outcome outcome = dial(loop, {address_of(silent), door.address()}, own, milliseconds(4000));
  EXPECT_TRUE(outcome.socket) << outcome.trouble;
  EXPECT_EQ(outcome.address, door.address());
}

TEST(Hostile, AServerThatAcceptsAndSaysNothingIsNamedSo) {
  EventLoop loop;
  const UniqueFd silent = listen_on(SocketAddress::loopback(Family::kIpv4, 0));
  const Dialer::Outcome outcome = dial(loop, {address_of(silent)}, credentials(), milliseconds(2000));
  EXPECT_FALSE(outcome.socket);
  EXPECT_NE(outcome.trouble.find(address_of(silent).text() + ": connected, but nothing answers"), std::string::npos)
      << outcome.trouble;
}

// Another program at a port: it says something to everybody.
class Chatterer {
 public:
  Chatterer() : listening_(listen_on(SocketAddress::loopback(Family::kIpv4, 0))), address_(address_of(listening_)) {
    thread_ = std::thread([this] {
      while (!stop_) {
        pollfd ready{.fd = listening_.get(), .events = POLLIN, .revents = 0};
        if (::poll(&ready, 1, 10) != 1) continue;
        guests_.emplace_back(::accept(listening_.get(), nullptr, nullptr));
        static_cast<void>(::send(guests_.back().get(), "SSH-2.0-1\r\n", 11, MSG_NOSIGNAL));
      }
    });
  }
  ~Chatterer() {
    stop_ = true;
    thread_.join();
  }
  const SocketAddress& address() const { return address_; }

 private:
  UniqueFd listening_;
  SocketAddress address_;
  std::atomic<bool> stop_{false};
  std::vector<UniqueFd> guests_;
  std::thread thread_;
};

TEST(Hostile, WhoeverHasThePortOfARankIsNotTakenForIt) {
  EventLoop loop;
  const Credentials own = credentials();
  const Chatterer stranger;
  const Dialer::Outcome chatter = dial(loop, {stranger.address()}, own, milliseconds(4000));
  EXPECT_FALSE(chatter.rejected) << "it may give way to the rank";
  EXPECT_FALSE(chatter.alive);
  EXPECT_TRUE(chatter.gone) << "the rank is not there any more";
  EXPECT_FALSE(chatter.all_refused);

  Door door(loop, own, [](const Hello&) { return "not today"; });
  const Dialer::Outcome refused = dial(loop, {door.address()}, own, milliseconds(4000));
  EXPECT_TRUE(refused.rejected);
  EXPECT_TRUE(refused.alive);
  EXPECT_FALSE(refused.gone);
}

TEST(Hostile, ARankWhosePortAnotherProgramHasIsMissedByTheRollCall) {
  EventLoop loop;
  const Credentials own = credentials();
  const Chatterer stranger;
  std::promise<std::string> dead;
  std::optional<RollCall> roll_call;
  loop.call([&] {
    RollCall::Self self;
    self.silence = std::chrono::hours(1);
    self.dial = [&](int rank, Dialer::Done done) {
      return Dialer::start(loop, {stranger.address()},
                           {Purpose::kTree, 1, static_cast<std::uint32_t>(rank), 2, own.communicator}, own.secret,
                           milliseconds(4000), std::move(done));
    };
    self.missing = [] { return std::vector{0}; };
    self.is_missing = [](int) { return true; };
    self.on_dead = [&](int rank, const std::string& trouble) { dead.set_value(std::to_string(rank) + ": " + trouble); };
    roll_call.emplace(loop, std::move(self)).begin_soon();
  });
  std::future<std::string> end = dead.get_future();
  const bool missed = end.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  loop.call([&] { roll_call.reset(); });
  ASSERT_TRUE(missed);
  EXPECT_EQ(end.get(), "0: another program has its port now");
}

TEST(Hostile, APortThatIsTakenForIpv6IsNotUsedForIpv4Alone) {
  UniqueFd squatter(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int only = 1;
  ::setsockopt(squatter.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  const SocketAddress any = SocketAddress::any(Family::kIpv6, 0);
  if (::bind(squatter.get(), any.data(), any.size()) != 0 || ::listen(squatter.get(), 1) != 0) {
    GTEST_SKIP() << "there is no IPv6 here";
  }
  const std::uint16_t port = local_address(squatter.get()).port();
  EXPECT_THROW(listen_anywhere(Family::kAny, false, port), Error);
  EXPECT_TRUE(listen_anywhere(Family::kAny, false, 0));
}

}  // namespace
}  // namespace tutti
