// Crowds, and other users, at the local socket where rank 0 hands its secret out.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/handles.h"
#include "bootstrap/hand_out.h"

namespace tutti {
namespace {

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
