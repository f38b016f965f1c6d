#include "bootstrap/hand_out.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

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
      answer = ask_hand_out(name, in(std::chrono::milliseconds(500)));
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

}  // namespace
}  // namespace tutti
