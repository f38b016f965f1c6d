#include <gtest/gtest.h>
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
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/dialer.h"
#include "bootstrap/hand_out.h"
#include "bootstrap/listener.h"
#include "bootstrap/sockets.h"

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
  Door(EventLoop& loop, const Credentials& own) : loop_(loop) {
    UniqueFd socket = listen_on(SocketAddress::loopback(Family::kIpv4, 0));
    address_ = address_of(socket);
    loop_.call([&] {
      listener_ = std::make_unique<Listener>(loop_, std::move(socket));
      listener_->admit(own, {}, [this](const Hello&, UniqueFd guest) { guests_.push_back(std::move(guest)); });
    });
  }
  ~Door() {
    loop_.call([&] { listener_.reset(); });
  }
  const SocketAddress& address() const { return address_; }

 private:
  EventLoop& loop_;
  SocketAddress address_;
  std::unique_ptr<Listener> listener_;
  std::vector<UniqueFd> guests_;
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
