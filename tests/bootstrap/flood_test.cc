// Many thousand hostile connections at every socket that listens: what they cost is bounded, in memory and descriptors,
// and whoever belongs there still gets in.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/net/handshake.h"
#include "bootstrap/hand_out.h"
#include "meeting.h"
#include "support/descriptors.h"
#include "transport/shm/segment.h"
#include "transport/shm/segment_server.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

struct Address {
  sockaddr_storage data{};
  socklen_t length = sizeof(sockaddr_storage);
};

// All sockets on which this process listens.
std::vector<Address> listeners() {
  std::vector<Address> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t length = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) continue;
    Address address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address.data), &address.length);
    // Of those that listen everywhere, the way through the loopback interface.
    if (address.data.ss_family != AF_UNIX) {
      const auto local = local_address(fd);
      const auto family = address.data.ss_family == AF_INET6 ? Family::kIpv6 : Family::kIpv4;
      const auto here = SocketAddress::loopback(family, local.port());
      std::memcpy(&address.data, here.data(), here.size());
      address.length = here.size();
    }
    found.push_back(address);
  }
  return found;
}

// What a stranger says before it says nothing more.
std::vector<std::vector<std::byte>> half_messages() {
  const auto bytes = [](const std::string& text) {
    const auto view = std::as_bytes(std::span(text));
    return std::vector<std::byte>(view.begin(), view.end());
  };
  ClientHandshake client({Purpose::kMeet, 1, 0, 2, communicator_name(random_nonce(), "job")}, Key::random());
  const std::vector<std::byte> hello = client.start();
  std::vector<std::byte> half(hello.begin(), hello.begin() + static_cast<std::ptrdiff_t>(hello.size() / 2));
  std::vector<std::byte> more = hello;
  more.resize(more.size() + 20, std::byte{0x5a});
  return {{}, bytes("GET / HTTP/1.1\r\nHost: "), std::move(half), hello, std::move(more)};
}

// Connects so many times, to one after the other, says half of something, and keeps the latest of the connections open.
void flood(const std::vector<Address>& addresses, int connections) {
  constexpr std::size_t kOpen = 400;
  const auto messages = half_messages();
  std::deque<UniqueFd> open;
  for (int i = 0; i < connections; ++i) {
    const Address& address = addresses[static_cast<std::size_t>(i) % addresses.size()];
    UniqueFd socket(::socket(address.data.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) ::_exit(1);
    const auto connect = [&] {
      return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.data), address.length) == 0 ||
             errno == EINPROGRESS;
    };
    // A local socket's queue may be full.
    for (int tries = 0; !connect() && errno == EAGAIN && tries < 50; ++tries) ::usleep(1000);
    const auto& message = messages[static_cast<std::size_t>(i) / addresses.size() % messages.size()];
    static_cast<void>(::send(socket.get(), message.data(), message.size(), MSG_NOSIGNAL));
    open.push_back(std::move(socket));
    if (open.size() > kOpen) open.pop_front();
  }
}

std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(::getpagesize());
}

struct Cost {
  std::size_t bytes = 0;        // of resident memory, beyond what there was before
  std::size_t descriptors = 0;  // at most, beyond those before
};

// From a process of its own.
Cost cost_of_flood(const std::vector<Address>& addresses, int connections) {
  const std::size_t bytes = resident_bytes();
  const std::size_t descriptors = open_descriptors();
  std::size_t most = descriptors;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    flood(addresses, connections);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    most = std::max(most, open_descriptors());
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(status, 0);
  const std::size_t after = resident_bytes();
  return {after > bytes ? after - bytes : 0, most - descriptors};
}

// Those that are left have gone; so have the descriptors that they cost.
void expect_descriptors(std::size_t count) {
  for (int i = 0; i < 2000 && open_descriptors() > count; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_LE(open_descriptors(), count);
}

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
// Sanitizers keep what was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsComparable = false;
#else
constexpr bool kMemoryIsComparable = true;
#endif

TEST(Flood, OfEveryListenerOfAJobCostsBoundedMemoryAndDescriptors) {
  constexpr int kConnections = 20'000;
  // A communicator at work, an id at whose root one rank is missing, and a rank 0 that hands its secret out.
  TestRanks met = meet_all(3);
  expect_all_met(met);
  const UniqueId id = UniqueId::create();
  TestRanks waiting = make_ranks(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      meet(*waiting[static_cast<std::size_t>(rank)], membership_from_id(id, rank, 3), {{"TUTTI_MEET_TIMEOUT", "60"}});
    });
  }
  const auto of_hand_out = [name = hand_out_name("flood " + std::to_string(::getpid()))](int rank) {
    Membership membership;
    membership.rank = rank;
    membership.ranks = 2;
    membership.hand_out = name;
    membership.loopback_only = true;
    membership.roots = {{"127.0.0.1", 0}};
    if (rank == 0) {
      membership.secret = Key::random();
      membership.nonce = random_nonce();
    }
    return membership;
  };
  TestRanks handed = make_ranks(2);
  threads.emplace_back([&] { meet(*handed[0], of_hand_out(0), {{"TUTTI_MEET_TIMEOUT", "60"}}); });
  // Three ranks that met, a root and two ranks that wait, a hand-out, its root and a rank.
  wait_for([] { return listeners().size() >= 9; }, "not all listen");
  std::this_thread::sleep_for(milliseconds(100));
  const std::size_t descriptors = open_descriptors();
  // Not before: whoever meets takes as many as it can get.
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{std::min<rlim_t>(512, before.rlim_cur), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);

  const Cost first = cost_of_flood(listeners(), kConnections / 10);  // what is made once
  const Cost cost = cost_of_flood(listeners(), kConnections);
  std::printf("%d hostile connections at %zu listeners: %zu KiB, %zu descriptors (the first %d: %zu KiB)\n",
              kConnections, listeners().size(), cost.bytes >> 10, cost.descriptors, kConnections / 10,
              first.bytes >> 10);
  if (kMemoryIsComparable) {
    EXPECT_LT(first.bytes + cost.bytes, kMostBytes);
  }
  EXPECT_LE(cost.descriptors, few.rlim_cur / 4 + 64) << "a quarter of those that are allowed, and what comes and goes";

  // Nobody has noticed.
  threads.emplace_back([&] { meet(*waiting[2], membership_from_id(id, 2, 3)); });
  threads.emplace_back([&] { meet(*handed[1], of_hand_out(1)); });
  for (std::thread& thread : threads) thread.join();
  expect_all_met(waiting);
  expect_all_met(handed);
  for (TestRanks* ranks : {&met, &waiting, &handed}) {
    in_threads(static_cast<int>(ranks->size()), [&](int rank) {
      TestRank& mine = *(*ranks)[static_cast<std::size_t>(rank)];
      EXPECT_EQ(mine.plane->all_gather({}, Clock::now() + std::chrono::seconds(20)).size(), ranks->size());
    });
    for (const auto& rank : *ranks) EXPECT_FALSE(rank->health.failed());
  }
  for (TestRanks* ranks : {&waiting, &handed}) leave_all(*ranks);
  expect_descriptors(descriptors);
  leave_all(met);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Flood, OfALeaderThatOffersItsMemoryCostsBoundedMemoryAndDescriptors) {
  constexpr int kConnections = 20'000;
  const Key key = Key::random();
  const std::vector<std::byte> bytes(key.bytes().begin(), key.bytes().end());
  const Segment segment = Segment::create(1 << 16);
  const SegmentAddress address = SegmentAddress::derive(bytes, 0, std::filesystem::temp_directory_path());
  SegmentServer server(address, bytes, 0, segment.descriptor());
  ASSERT_EQ(listeners().size(), 2u);
  const std::size_t descriptors = open_descriptors();
  const Cost first = cost_of_flood(listeners(), kConnections / 10);
  const Cost cost = cost_of_flood(listeners(), kConnections);
  std::printf("%d hostile connections at a leader: %zu KiB, %zu descriptors (the first %d: %zu KiB)\n", kConnections,
              cost.bytes >> 10, cost.descriptors, kConnections / 10, first.bytes >> 10);
  if (kMemoryIsComparable) {
    EXPECT_LT(first.bytes + cost.bytes, kMostBytes);
  }
  EXPECT_LE(cost.descriptors, 256u + 4u);
  EXPECT_TRUE(request_segment(address, bytes, 0, 1));
  expect_descriptors(descriptors);
}

}  // namespace
}  // namespace tutti
