#include "bootstrap/hand_out.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/handles.h"
#include "bootstrap/find_membership.h"
#include "tutti/error.h"

namespace tutti {
namespace {

std::string new_name() {
  static std::atomic<int> count{0};
  return hand_out_name("test " + std::to_string(::getpid()) + " " + std::to_string(count++));
}

Deadline in(std::chrono::milliseconds time) { return Clock::now() + time; }

TEST(HandOut, TellsEverybodyWhoAsks) {
  const std::string name = new_name();
  std::vector<std::string> answers(8);
  std::vector<std::thread> ranks;
  for (std::string& answer : answers) {
    ranks.emplace_back([&answer, &name] { answer = ask_hand_out(name, in(std::chrono::seconds(60))); });
  }
  // The ranks ask before rank 0 is there.
  HandOut hand_out(name);
  std::atomic<bool> stop{false};
  std::thread root([&] {
    while (!stop) {
      pollfd ready{.fd = hand_out.descriptor(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 10) == 1) hand_out.serve("the answer");
    }
  });
  for (std::thread& rank : ranks) rank.join();
  stop = true;
  root.join();
  for (const std::string& answer : answers) EXPECT_EQ(answer, "the answer");
}

TEST(HandOut, NeverBlocksWithNobodyThereOrAPeerThatLeft) {
  const std::string name = new_name();
  HandOut hand_out(name);
  hand_out.serve("nobody asks");
  EXPECT_THROW(ask_hand_out(name, in(std::chrono::milliseconds(20))), Error) << "it left without an answer";
  hand_out.serve("gone");
}

TEST(HandOut, GivesUpAtTheDeadlineAndSaysWhatToDo) {
  try {
    ask_hand_out(new_name(), in(std::chrono::milliseconds(20)));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_EQ(error.peer(), 0);
    EXPECT_NE(std::string(error.what()).find("TUTTI_SECRET"), std::string::npos);
  }
}

// Another process of this user has the name and sends a byte now and then: each wait is short, and together they are
// not.
TEST(HandOut, GivesUpAtTheDeadlineHoweverSlowlyBytesCome) {
  const std::string name = new_name();
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  constexpr int kMost = 1500;  // an answer may be longer
  int sent = 0;
  std::thread slow([&] {
    const UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
    while (sent < kMost && ::send(peer.get(), "x", 1, MSG_NOSIGNAL) == 1) {
      ++sent;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  EXPECT_THROW(ask_hand_out(name, in(std::chrono::milliseconds(100))), Error);
  slow.join();
  EXPECT_LT(sent, kMost) << "it listened for as long as bytes came";
}

TEST(HandOut, RefusesASecondRootAndFreesTheNameWithTheFirst) {
  const std::string name = new_name();
  {
    const HandOut first(name);
    try {
      const HandOut second(name);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("EADDRINUSE"), std::string::npos) << error.what();
    }
  }
  EXPECT_NO_THROW(HandOut{name});
}

TEST(HandOut, IsNamedAfterPlaceAndUser) {
  EXPECT_EQ(hand_out_name("port 29500"), hand_out_name("port 29500"));
  EXPECT_NE(hand_out_name("port 29500"), hand_out_name("port 29501"));
  EXPECT_TRUE(hand_out_name("x").starts_with("tutti-" + std::to_string(::geteuid()) + "-"));
}

// Another user, in either role, is refused: the kernel says who it is. Needs root to become somebody else.
class HandOutToAnotherUser : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can pose as another user";
  }
};

TEST_F(HandOutToAnotherUser, IsRefusedTheSecret) {
  const std::string name = new_name();
  HandOut hand_out(name);
  std::string answer;
  // Credentials belong to a thread in the kernel: setresuid as a system call changes this one only.
  std::thread stranger([&] {
    if (::syscall(SYS_setresuid, 65534, 65534, 65534) != 0) return;
    try {
      answer = ask_hand_out(name, in(std::chrono::seconds(10)));
    } catch (const Error& error) {
      answer = tutti::name(error.code());
    }
  });
  pollfd ready{.fd = hand_out.descriptor(), .events = POLLIN, .revents = 0};
  ::poll(&ready, 1, 10'000);
  testing::internal::CaptureStderr();
  hand_out.serve("the secret");
  stranger.join();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("got no answer"), std::string::npos);
  EXPECT_EQ(answer, "unauthorized") << "it does not believe this root either";
}

// What a process says in a user namespace that has one number only, which is its own and the one that all others are
// shown under.
class AmongNamelessUsers : public testing::Test {
 protected:
  void SetUp() override {
    if (say([] { return std::string("here"); }) != "here") GTEST_SKIP() << "this user can make no user namespaces";
  }
  ~AmongNamelessUsers() override { end(); }

  void begin(const std::function<std::string()>& say) {
    const std::string map = "65534 " + std::to_string(::geteuid()) + " 1";
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::unshare(CLONE_NEWUSER) != 0 || !(std::ofstream("/proc/self/uid_map") << map << std::flush)) ::_exit(1);
      std::string text;
      try {
        text = say();
      } catch (const Error& error) {
        text = std::string(name(error.code())) + ": " + error.what();
      }
      ::_exit(::write(ends[1], text.data(), text.size()) > 0 ? 0 : 1);
    }
    ::close(ends[1]);
    said_ = UniqueFd(ends[0]);
  }
  std::string end() {
    std::array<char, 1000> text{};
    const ssize_t bytes = said_ ? ::read(said_.get(), text.data(), text.size()) : 0;
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
  }
  std::string say(const std::function<std::string()>& what) {
    begin(what);
    return end();
  }

 private:
  pid_t pid_ = -1;
  UniqueFd said_;
};

TEST_F(AmongNamelessUsers, RankZeroGivesTheSecretToNobody) {
  const std::string place = new_name();
  begin([&] {
    HandOut hand_out(place);
    pollfd ready{.fd = hand_out.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, 10'000);
    hand_out.serve("the secret");
    return std::string("served");
  });
  EXPECT_THROW(ask_hand_out(place, in(std::chrono::milliseconds(500))), Error);
  EXPECT_EQ(end(), "served");
}

TEST_F(AmongNamelessUsers, ARankTakesASecretFromNobody) {
  const std::string place = new_name();
  HandOut hand_out(place);
  begin([&] { return ask_hand_out(place, in(std::chrono::seconds(10))); });
  pollfd ready{.fd = hand_out.descriptor(), .events = POLLIN, .revents = 0};
  ::poll(&ready, 1, 10'000);
  hand_out.serve("a secret that somebody else knows");
  const std::string said = end();
  EXPECT_TRUE(said.starts_with("unauthorized: ")) << said;
  EXPECT_NE(said.find("set TUTTI_SECRET on all ranks"), std::string::npos) << said;
}

TEST_F(AmongNamelessUsers, AJobNeedsASecretAndNoHandOut) {
  const auto find = [](std::map<std::string, std::string> more) {
    more.insert({{"OMPI_COMM_WORLD_RANK", "0"},
                 {"OMPI_COMM_WORLD_SIZE", "2"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                 {"PMIX_NAMESPACE", "7"}});
    const Environment environment = [&more](const char* name) -> const char* {
      const auto found = more.find(name);
      return found == more.end() ? nullptr : found->second.c_str();
    };
    const Membership found = find_membership(Config::from_environment(environment), environment, {});
    return found.hand_out + found.roots.front().host + (found.roots.front().port == 0 ? "" : " and a port");
  };
  const std::string without = say([&] { return find({}); });
  EXPECT_TRUE(without.starts_with("invalid setting: ")) << without;
  EXPECT_NE(without.find("Set TUTTI_SECRET or TUTTI_SECRET_FILE"), std::string::npos) << without;
  EXPECT_EQ(say([&] { return find({{"TUTTI_SECRET", "the secret of this job"}}); }), "127.0.0.1 and a port");
}

}  // namespace
}  // namespace tutti
