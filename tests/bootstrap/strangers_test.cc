#include <sys/socket.h>

#include <atomic>
#include <filesystem>

#include "meeting.h"

namespace tutti {
namespace {

// The ports on which this process listens: the root's and all ranks'.
std::vector<SocketAddress> listening_ports() {
  std::vector<SocketAddress> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int listening = 0;
    socklen_t size = sizeof listening;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) continue;
    try {
      found.push_back(SocketAddress::loopback(Family::kIpv4, local_address(fd).port()));
    } catch (const Error&) {
      // Closed meanwhile, or another kind of socket.
    }
  }
  return found;
}

UniqueFd connect_to(const SocketAddress& address) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), address.data(), address.size()) != 0) fd.reset();
  return fd;
}

void say(const UniqueFd& fd, const std::string& text) {
  if (fd) static_cast<void>(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL));
}

// Connects and goes away at once with a reset, as port scanners do.
void scan(const SocketAddress& address) {
  const UniqueFd fd = connect_to(address);
  const linger reset{1, 0};
  if (fd) ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

TEST(Strangers, F15F17SilentAndGarbageConnectionsDisturbNobody) {
  const UniqueId id = UniqueId::create();
  std::vector<UniqueFd> strangers;
  const auto annoy = [&](const SocketAddress& port) {
    const std::vector<std::string> speeches = {"",
                                               "GET / HTTP/1.0\r\n\r\n",
                                               std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
                                               std::string(64, '\xff'),
                                               std::string("\x00\x00\x00\x00\x00\x00\x00\x80", 8),
                                               "x",
                                               std::string(100000, 'y')};
    for (const std::string& speech : speeches) {
      strangers.push_back(connect_to(port));
      say(strangers.back(), speech);
    }
    strangers.push_back(connect_to(port));
    strangers.back().reset();
  };
  for (const SocketAddress& port : listening_ports()) annoy(port);
  EXPECT_GE(strangers.size(), 7);  // at least the root was there

  TestRanks made = make_ranks(4);
  std::atomic<bool> met = false;
  std::thread annoyer([&] {
    while (!met && strangers.size() < 2000) {
      for (const SocketAddress& port : listening_ports()) annoy(port);
    }
  });
  in_threads(4, [&](int rank) { meet(*made[rank], membership_from_id(id, rank, 4)); });
  met = true;
  annoyer.join();
  expect_all_met(made);
  for (const SocketAddress& port : listening_ports()) annoy(port);
  in_threads(4, [&](int rank) {
    const std::byte mine{static_cast<unsigned char>(rank)};
    EXPECT_EQ(made[rank]->plane->all_gather({&mine, 1}, Clock::now() + std::chrono::seconds(20)).size(), 4);
  });
  leave_all(made);
  for (const auto& rank : made) EXPECT_FALSE(rank->health.failed());
}

TEST(Strangers, F14APortScanDisturbsNobody) {
  const UniqueId id = UniqueId::create();
  TestRanks made = make_ranks(4);
  std::atomic<bool> met = false;
  std::thread scanner([&] {
    while (!met) {
      for (const SocketAddress& port : listening_ports()) scan(port);
    }
  });
  in_threads(4, [&](int rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * rank));
    meet(*made[rank], membership_from_id(id, rank, 4));
  });
  met = true;
  scanner.join();
  expect_all_met(made);
  leave_all(made);
}

}  // namespace
}  // namespace tutti
