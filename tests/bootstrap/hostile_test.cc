#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/connection.h"
#include "bootstrap/dialer.h"
#include "bootstrap/hand_out.h"
#include "bootstrap/listener.h"
#include "bootstrap/roll_call.h"
#include "bootstrap/root_server.h"
#include "bootstrap/sockets.h"
#include "support/descriptors.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

Credentials credentials() {
  return {.rank = 0, .ranks = 2, .communicator = communicator_name(random_nonce(), "job"), .secret = Key::random()};
}

SocketAddress address_of(const UniqueFd& listening) {
  return SocketAddress::loopback(Family::kIpv4, local_address(listening.get()).port());
}

Dialer::Outcome dial(EventLoop& loop, std::vector<SocketAddress> addresses, const Credentials& to,
                     milliseconds patience) {
  std::promise<Dialer::Outcome> outcome;
  loop.post([&] {
    Dialer::start(loop, std::move(addresses), {Purpose::kMeet, 1, 0, 2, to.communicator}, to.secret, patience,
                  [&](Dialer::Outcome result) { outcome.set_value(std::move(result)); });
  });
  return outcome.get_future().get();
}

// Lets in whoever knows the secret.
class Door {
 public:
  Door(EventLoop& loop, const Credentials& own, Challenge::Judge judge = {}) : loop_(loop) {
    UniqueFd socket = listen_on(SocketAddress::loopback(Family::kIpv4, 0));
    address_ = address_of(socket);
    loop_.call([&] {
      listener_ = std::make_unique<Listener>(loop_, std::move(socket));
      listener_->admit(own, std::move(judge),
                       [this](const Hello&, ProvenSocket guest) { guests_.push_back(std::move(guest)); });
      listener_->when_exhausted([this](const std::string& trouble) { exhausted_.set_value(trouble); });
    });
  }
  ~Door() {
    loop_.call([&] { listener_.reset(); });
  }
  const SocketAddress& address() const { return address_; }
  std::size_t guests() {
    std::size_t count = 0;
    loop_.call([&] { count = guests_.size(); });
    return count;
  }
  // Why it could not keep somebody.
  std::future<std::string> exhausted() { return exhausted_.get_future(); }

 private:
  EventLoop& loop_;
  SocketAddress address_;
  std::unique_ptr<Listener> listener_;
  std::vector<ProvenSocket> guests_;
  std::promise<std::string> exhausted_;
};

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
  const Dialer::Outcome outcome = dial(loop, {address_of(silent)}, credentials(), milliseconds(300));
  EXPECT_FALSE(outcome.socket);
  EXPECT_NE(outcome.trouble.find(address_of(silent).text() + ": connected, but nothing answers"), std::string::npos)
      << outcome.trouble;
}

void take_all_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// A process that connects again and again and says nothing.
class Silence {
 public:
  Silence(const SocketAddress& address, int connections) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      take_all_descriptors();
      for (int i = 0; i < connections; ++i) {
        const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
        if (::connect(fd, address.data(), address.size()) != 0) ::_exit(1);
      }
      if (::write(ends[1], "x", 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    ::close(ends[1]);
    char all_there = 0;
    EXPECT_EQ(::read(ends[0], &all_there, 1), 1);
    ::close(ends[0]);
  }
  ~Silence() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

// The highest descriptor that this process may have, for as long as this lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t count) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{count, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Whether a rank in a process of its own is let in.
bool lets_in(const SocketAddress& address, const Credentials& own) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    take_all_descriptors();
    ::alarm(8);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(fd, address.data(), address.size()) != 0) ::_exit(1);
    ClientHandshake client({Purpose::kMeet, 1, 0, 2, own.communicator}, own.secret);
    std::vector<std::byte> out = client.start();
    while (true) {
      if (!out.empty()) static_cast<void>(::send(fd, out.data(), out.size(), MSG_NOSIGNAL));
      std::array<std::byte, Handshake::kMaxReason> in;
      const std::size_t wanted = client.wanted();
      if (wanted == 0) ::_exit(client.state() == HandshakeState::kAccepted ? 0 : 2);
      const ssize_t got = ::recv(fd, in.data(), wanted, 0);
      if (got <= 0) ::_exit(3);
      std::span<const std::byte> data(in.data(), static_cast<std::size_t>(got));
      out = client.feed(data);
    }
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Hostile, SilentConnectionsLeaveDescriptorsForTheProgram) {
  EventLoop loop;
  const Credentials own = credentials();
  const Door door(loop, own);
  const FewDescriptors limit(128);
  const Silence strangers(door.address(), 400);
  std::vector<UniqueFd> needed;
  for (int i = 0; i < 40; ++i) needed.emplace_back(::dup(STDERR_FILENO));
  EXPECT_TRUE(needed.back()) << "strangers have taken them";
  EXPECT_TRUE(lets_in(door.address(), own));
}

TEST(Hostile, SilentConnectionsGiveWayWhenThereAreNoDescriptorsLeft) {
  EventLoop loop;
  const Credentials own = credentials();
  const Door door(loop, own);
  testing::internal::CaptureStderr();
  {
    const UniqueFd highest(::dup(STDERR_FILENO));
    const FewDescriptors limit(static_cast<rlim_t>(highest.get()) + 12);
    const Silence strangers(door.address(), 400);
    EXPECT_TRUE(lets_in(door.address(), own));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

// A process that connects, says nothing for so long, and goes.
void be_silent_at(const SocketAddress& address, milliseconds time) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    take_all_descriptors();
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(fd, address.data(), address.size()) != 0) ::_exit(1);
    std::this_thread::sleep_for(time);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

// All that the process may have.
std::vector<UniqueFd> take_every_descriptor() {
  std::vector<UniqueFd> taken;
  while (true) {
    taken.emplace_back(::dup(STDERR_FILENO));
    if (taken.back()) continue;
    taken.pop_back();
    return taken;
  }
}

TEST(Hostile, WithoutDescriptorsStrangersEndNothingAndRanksAreLetInWhenThereIsOneAgain) {
  EventLoop loop;
  const Credentials own = credentials();
  Door door(loop, own);
  std::future<std::string> exhausted = door.exhausted();
  const FewDescriptors limit(128);
  std::vector<UniqueFd> all = take_every_descriptor();
  for (int i = 0; i < 4; ++i) be_silent_at(door.address(), milliseconds(500));
  EXPECT_EQ(exhausted.wait_for(milliseconds(0)), std::future_status::timeout) << exhausted.get();
  all.pop_back();
  EXPECT_TRUE(lets_in(door.address(), own));
  while (door.guests() == 0) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(exhausted.wait_for(milliseconds(0)), std::future_status::timeout) << exhausted.get();
}

TEST(Hostile, StrangersGiveWayToAConnectionThatThisProcessOpens) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "without a descriptor the sanitizer cannot look at an error that is thrown";
#endif
  EventLoop loop;
  const Credentials own = credentials();
  Door door(loop, own);
  const FewDescriptors limit(128);
  const Silence strangers(door.address(), 8);
  // The peer lives in the same process, and lets nobody wait: its listener has the reserve for it.
  const std::vector<UniqueFd> all = take_every_descriptor();
  const Dialer::Outcome outcome = dial(loop, {door.address()}, own, milliseconds(8000));
  EXPECT_FALSE(outcome.exhausted) << outcome.trouble;
}

TEST(Hostile, StrangersAtSeveralPortsTogetherHaveAQuarterOfTheDescriptors) {
  EventLoop loop;
  const Credentials own = credentials();
  const Door one(loop, own);
  const Door other(loop, own);
  const Door third(loop, own);
  const FewDescriptors limit(200);
  const std::size_t before = open_descriptors();
  const Silence at_one(one.address(), 100);
  const Silence at_other(other.address(), 100);
  const Silence at_third(third.address(), 100);
  std::size_t most = 0;
  for (int i = 0; i < 60; ++i) {
    most = std::max(most, open_descriptors());
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_LE(most, before + 56) << "a quarter of those that are allowed";
  for (const Door* door : {&one, &other, &third}) EXPECT_TRUE(lets_in(door->address(), own));
}

TEST(Hostile, WithoutDescriptorsARankThatCannotBeKeptIsToldOf) {
  EventLoop loop;
  const Credentials own = credentials();
  Door door(loop, own);
  std::future<std::string> exhausted = door.exhausted();
  const FewDescriptors limit(128);
  const std::vector<UniqueFd> all = take_every_descriptor();
  EXPECT_TRUE(lets_in(door.address(), own));
  ASSERT_EQ(exhausted.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_NE(exhausted.get().find("EMFILE"), std::string::npos);
  EXPECT_EQ(door.guests(), 0u);
}

TEST(Hostile, F15BytesThatComeSlowlyDoNotExtendTheTimeOfAChallenge) {
  EventLoop loop;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const UniqueFd stranger(ends[0]);
  std::promise<Challenge::Outcome> promise;
  std::shared_ptr<Challenge> challenge;
  const Clock::time_point began = Clock::now();
  loop.call([&] {
    challenge = Challenge::as_server(loop, UniqueFd(ends[1]), credentials(), {}, {}, milliseconds(300),
                                     [&](Challenge::Outcome outcome) { promise.set_value(std::move(outcome)); });
  });
  std::future<Challenge::Outcome> outcome = promise.get_future();
  // The beginning of a rank's hello, a byte at a time: it would take seconds.
  const std::string hello = "TUTTIHS1" + std::string(64, '\0');
  for (std::size_t i = 0; outcome.wait_for(milliseconds(40)) == std::future_status::timeout && i < hello.size(); ++i) {
    static_cast<void>(::send(stranger.get(), &hello[i], 1, MSG_NOSIGNAL));
  }
  const Challenge::Outcome end = outcome.get();
  EXPECT_FALSE(end.socket);
  EXPECT_EQ(end.code, ErrorCode::kTimeout) << end.trouble;
  EXPECT_LT(Clock::now() - began, milliseconds(2000));
  loop.call([&] { challenge.reset(); });
}

TEST(Hostile, F17AFloodCostsABoundedNumberOfDescriptors) {
  EventLoop loop;
  const Credentials own = credentials();
  const Door door(loop, own);
  const FewDescriptors limit(400);
  const std::size_t before = open_descriptors();
  const Silence strangers(door.address(), 1000);
  std::size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    most = std::max(most, open_descriptors());
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_LE(most, before + 110) << "a quarter of those that are allowed";
  EXPECT_TRUE(lets_in(door.address(), own));
}

// What a rank once said, said again by somebody else.
TEST(Hostile, AHandshakeThatWasRecordedOpensNoDoor) {
  EventLoop loop;
  const Credentials own = credentials();
  const Door door(loop, own);
  const auto connect = [&] {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), door.address().data(), door.address().size()), 0);
    return socket;
  };
  const auto receive = [](const UniqueFd& socket, std::size_t most) {
    std::vector<std::byte> bytes(most);
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  };
  std::vector<std::byte> said;
  {
    const UniqueFd socket = connect();
    ClientHandshake client({Purpose::kMeet, 1, 0, 2, own.communicator}, own.secret);
    std::vector<std::byte> out = client.start();
    while (client.wanted() > 0) {
      said.insert(said.end(), out.begin(), out.end());
      EXPECT_EQ(::send(socket.get(), out.data(), out.size(), 0), static_cast<ssize_t>(out.size()));
      const std::vector<std::byte> in = receive(socket, client.wanted());
      ASSERT_FALSE(in.empty());
      std::span<const std::byte> data = in;
      out = client.feed(data);
    }
    ASSERT_EQ(client.state(), HandshakeState::kAccepted);
  }
  const UniqueFd attacker = connect();
  ASSERT_EQ(::send(attacker.get(), said.data(), said.size(), 0), static_cast<ssize_t>(said.size()));
  constexpr std::byte kChallenge{1};
  constexpr std::byte kReject{3};
  std::vector<std::byte> answer;
  while (true) {
    const std::vector<std::byte> more = receive(attacker, 1000);
    if (more.empty()) break;
    answer.insert(answer.end(), more.begin(), more.end());
  }
  ASSERT_GT(answer.size(), 65u);
  EXPECT_EQ(answer[0], kChallenge);
  EXPECT_EQ(answer[65], kReject) << "not accepted";
}

// A rank and the root have passed the challenge through somebody who got between them, and now the rank speaks.
class Relay {
 public:
  Relay() {
    ClientHandshake client({Purpose::kMeet, 1, 0, 2, own_.communicator}, own_.secret);
    ServerHandshake server(0, own_.communicator, own_.secret);
    std::span<const std::byte> data;
    const auto feed = [&data](auto& side, const std::vector<std::byte>& bytes) {
      data = bytes;
      return side.feed(data);
    };
    feed(server, feed(client, feed(server, client.start())));
    feed(client, server.accept());
    loop_.call([&] {
      rank_ = std::make_shared<Connection>(loop_, ProvenSocket{pair(to_rank_), client.session()}, kLimit);
      root_ = std::make_shared<Connection>(loop_, ProvenSocket{pair(to_root_), server.session()}, kLimit);
      rank_->start([this](FrameType, auto payload) { heard_.set_value(text_of(payload)); },
                   [this](const std::string& trouble) { heard_.set_value("end: " + trouble); });
      root_->start([this](FrameType, auto payload) { heard_.set_value(text_of(payload)); },
                   [this](const std::string& trouble) { heard_.set_value("end: " + trouble); });
    });
  }
  ~Relay() {
    loop_.call([&] {
      rank_->close();
      root_->close();
    });
  }

  // The bytes that the rank sends for it.
  std::vector<std::byte> say(const std::string& text) {
    loop_.call([&] { rank_->send(FrameType::kIntroduction, std::as_bytes(std::span(text.data(), text.size()))); });
    std::vector<std::byte> frame(kFrameHeaderBytes + text.size() + kFrameTagBytes);
    EXPECT_EQ(::recv(to_rank_.get(), frame.data(), frame.size(), MSG_WAITALL), static_cast<ssize_t>(frame.size()));
    return frame;
  }
  // What the root, or the rank itself, makes of bytes.
  std::string root_hears(std::span<const std::byte> frame) { return hears(to_root_, frame); }
  std::string rank_hears(std::span<const std::byte> frame) { return hears(to_rank_, frame); }

 private:
  static constexpr std::size_t kLimit = 1024;

  static UniqueFd pair(UniqueFd& far) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    far = UniqueFd(ends[0]);
    EXPECT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    return UniqueFd(ends[1]);
  }
  static std::string text_of(std::span<const std::byte> payload) {
    return {reinterpret_cast<const char*>(payload.data()), payload.size()};
  }
  std::string hears(const UniqueFd& socket, std::span<const std::byte> frame) {
    heard_ = std::promise<std::string>();
    EXPECT_EQ(::send(socket.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    std::string text = heard_.get_future().get();
    loop_.call([] {});  // until the promise is no longer in use
    return text;
  }

  Credentials own_ = credentials();
  EventLoop loop_;
  UniqueFd to_rank_;
  UniqueFd to_root_;
  std::shared_ptr<Connection> rank_;
  std::shared_ptr<Connection> root_;
  std::promise<std::string> heard_;
};

TEST(Hostile, WhoeverPassedTheChallengeOnCanChangeNothingThatIsSaid) {
  Relay honest;
  EXPECT_EQ(honest.root_hears(honest.say("I am at 10.1.0.1")), "I am at 10.1.0.1");
  EXPECT_EQ(honest.root_hears(honest.say("")), "");
  Relay changing;
  std::vector<std::byte> frame = changing.say("I am at 10.1.0.1");
  frame[kFrameHeaderBytes + 15] = std::byte{'9'};
  EXPECT_NE(changing.root_hears(frame).find("something between the two changed"), std::string::npos);
}

TEST(Hostile, WhoeverPassedTheChallengeOnCanRepeatLeaveOutAndReflectNothing) {
  Relay repeating;
  const std::vector<std::byte> frame = repeating.say("first");
  EXPECT_EQ(repeating.root_hears(frame), "first");
  EXPECT_TRUE(repeating.root_hears(frame).starts_with("end: something"));
  Relay leaving_out;
  leaving_out.say("first");
  EXPECT_TRUE(leaving_out.root_hears(leaving_out.say("second")).starts_with("end: something"));
  Relay reflecting;
  EXPECT_TRUE(reflecting.rank_hears(reflecting.say("first")).starts_with("end: something"));
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
  EXPECT_TRUE(chatter.rejected);
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

std::vector<UniqueFd> ask(const std::string& name, int count) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < count; ++i) {
    waiting.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(waiting.back().get(), reinterpret_cast<const sockaddr*>(&address),
                        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
              0);
  }
  return waiting;
}

std::string new_name() { return "tutti-hostile-" + std::to_string(::getpid()); }

TEST(Hostile, CrowdsAtTheHandOutDoNotKeepItsThreadFromOtherWork) {
  HandOut hand_out(new_name());
  const std::vector<UniqueFd> crowd = ask(new_name(), 200);
  const auto answered = [&] {
    return std::ranges::count_if(crowd, [](const UniqueFd& socket) {
      pollfd ready{.fd = socket.get(), .events = POLLIN, .revents = 0};
      return ::poll(&ready, 1, 0) == 1;
    });
  };
  hand_out.serve("text");
  EXPECT_GT(answered(), 0);
  EXPECT_LT(answered(), 200) << "whoever connects faster than it answers would hold it for ever";
  for (int i = 0; i < 10; ++i) hand_out.serve("text");
  EXPECT_EQ(answered(), 200);
}

TEST(Hostile, AnotherUserCannotFillTheLog) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can pose as another user";
  HandOut hand_out(new_name());
  std::vector<UniqueFd> strangers;
  std::thread([&] {
    // Credentials belong to a thread in the kernel: setresuid as a system call changes this one only.
    if (::syscall(SYS_setresuid, 4711, 4711, 4711) == 0) strangers = ask(new_name(), 50);
  }).join();
  testing::internal::CaptureStderr();
  hand_out.serve("text");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_NE(log.find("of user 4711 asked for this job's secret and got no answer"), std::string::npos) << log;
}

}  // namespace
}  // namespace tutti
