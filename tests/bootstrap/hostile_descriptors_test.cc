// Connections that say nothing cost a bounded number of descriptors. Where the process has no other left, strangers end
// nothing, and ranks are let in.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/net/handshake.h"
#include "door.h"
#include "support/descriptors.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kThrowsWithoutDescriptors = false;
#else
constexpr bool kThrowsWithoutDescriptors = true;
#endif
constexpr const char* kWhyItDoesNot = "without a descriptor the sanitizer cannot look at an error that is thrown";

void raise_the_limit_of_descriptors() {
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
      raise_the_limit_of_descriptors();
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
    raise_the_limit_of_descriptors();
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
    raise_the_limit_of_descriptors();
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
  if (!kThrowsWithoutDescriptors) GTEST_SKIP() << kWhyItDoesNot;
  EventLoop loop;
  const Credentials own = credentials();
  Door door(loop, own);
  const FewDescriptors limit(128);
  const std::size_t before = open_descriptors();
  const Silence strangers(door.address(), 8);
  while (open_descriptors() < before + 8) std::this_thread::sleep_for(milliseconds(1));  // until they wait inside
  // The peer lives in the same process: it lets in whoever comes next with its reserve.
  const std::vector<UniqueFd> all = take_every_descriptor();
  const Dialer::Outcome outcome = dial(loop, {door.address()}, own, milliseconds(8000));
  EXPECT_TRUE(outcome.socket) << outcome.trouble;
}

// Otherwise nobody is let in any more, and nobody hears why.
TEST(Hostile, TheReserveOfAListenerIsNotForConnectionsThatThisProcessOpens) {
  if (!kThrowsWithoutDescriptors) GTEST_SKIP() << kWhyItDoesNot;
  EventLoop loop;
  const Credentials own = credentials();
  Door door(loop, own);
  const FewDescriptors limit(128);
  std::vector<UniqueFd> all = take_every_descriptor();
  std::thread stranger([&] { be_silent_at(door.address(), milliseconds(1500)); });
  std::this_thread::sleep_for(milliseconds(500));  // until it waits inside, in the reserve's place
  const Dialer::Outcome outcome = dial(loop, {door.address()}, own, milliseconds(8000));
  EXPECT_TRUE(outcome.exhausted) << outcome.trouble;
  stranger.join();
  all.pop_back();
  EXPECT_TRUE(lets_in(door.address(), own));
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

}  // namespace
}  // namespace tutti
