#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/handles.h"
#include "base/health.h"
#include "transport/messages.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti {

// Both ends of a new TCP connection on loopback.
inline std::pair<UniqueFd, UniqueFd> loopback_pair() {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  UniqueFd connecting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(connecting.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(accepted);
  return {std::move(connecting), std::move(accepted)};
}

inline std::pair<UniqueFd, UniqueFd> socket_pair() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Several ranks in one process, each with its transport and an endpoint for every other rank and channel.
class TcpRanks {
 public:
  struct Rank {
    std::unique_ptr<Health> health;
    std::vector<std::vector<Endpoint>> endpoints;  // [peer][channel]
    std::vector<int> requests;                     // connections asked for, when they are not made at once
    std::unique_ptr<std::byte[]> slots;            // what Way::kSlot messages are sent from
    std::unique_ptr<TcpTransport> tcp;
  };

  // Whoever asks for a connection gets it before its call returns, or only notes in Rank::requests that it asked. The
  // buffers of socket pairs can be tiny without TCP's timers making each of their refills slow.
  enum Connections { kLoopback, kSocketPairs, kOnDemand };

  explicit TcpRanks(int ranks, const TcpLimits& limits = {}, Connections connections = kLoopback)
      : connections_(connections), ranks_(ranks) {
    for (int r = 0; r < ranks; ++r) {
      Rank& rank = ranks_[r];
      rank.health = std::make_unique<Health>(ranks);
      rank.slots = std::make_unique_for_overwrite<std::byte[]>(8 * (limits.max_message_bytes + 64));
      rank.tcp = std::make_unique<TcpTransport>(
          r, ranks, *rank.health,
          [this, r](int peer) { connections_ == kOnDemand ? ranks_[r].requests.push_back(peer) : connect(r, peer); },
          limits);
      rank.endpoints.resize(ranks);
      for (int p = 0; p < ranks; ++p) {
        if (p == r) continue;
        rank.endpoints[p].resize(limits.channels);
        for (int c = 0; c < limits.channels; ++c) {
          Endpoint& endpoint = rank.endpoints[p][c];
          endpoint.peer = static_cast<std::uint16_t>(p);
          endpoint.channel = static_cast<std::uint8_t>(c);
          endpoint.out_slots = rank.slots.get();
          rank.tcp->add_endpoint(endpoint);
        }
      }
    }
  }

  Rank& operator[](int rank) { return ranks_[rank]; }
  Endpoint& endpoint(int rank, int peer, int channel = 0) { return ranks_[rank].endpoints[peer][channel]; }

  // A connection that rank `from` opened.
  void connect(int from, int to) {
    auto [connecting, accepted] = connections_ == kSocketPairs ? socket_pair() : loopback_pair();
    ranks_[from].tcp->attach(to, std::move(connecting), true);
    ranks_[to].tcp->attach(from, std::move(accepted), false);
  }

  // Lets everybody move until nothing does, several times in a row: bytes on loopback may take a moment.
  void settle() {
    for (int idle = 0; idle < 200;) {
      bool moved = false;
      for (Rank& rank : ranks_) moved |= rank.tcp->progress();
      idle = moved ? 0 : idle + 1;
    }
  }
  // Lets everybody move until the condition holds. Fails the test when it does not within a generous time.
  template <class Condition>
  bool until(Condition condition) {
    const Deadline deadline = Clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      for (Rank& rank : ranks_) rank.tcp->progress();
      if (Clock::now() > deadline) return false;
    }
    return true;
  }

  // The same of one rank alone.
  template <class Condition>
  bool until(int rank, Condition condition) {
    const Deadline deadline = Clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      ranks_[rank].tcp->progress();
      if (Clock::now() > deadline) return false;
    }
    return true;
  }

  // Gives bytes on their way time to arrive, and lets this rank take them.
  void wait_a_moment(int rank) {
    const Deadline deadline = Clock::now() + std::chrono::milliseconds(5);
    while (Clock::now() < deadline) ranks_[rank].tcp->progress();
  }

 private:
  const Connections connections_;
  std::vector<Rank> ranks_;
};

// Bytes that differ from message to message and from position to position.
inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> data(bytes);
  std::uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
  for (std::byte& b : data) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    b = static_cast<std::byte>(x);
  }
  return data;
}

// Publishes a message as an executor would. With kSlot the bytes go through the rank's slots, one of 8 by number;
// with kRead they are read where they lie.
inline void send(Endpoint& endpoint, const std::vector<std::byte>& data, std::uint64_t signature, Way way) {
  ASSERT_TRUE(can_publish(endpoint));
  Line& line = next_line(endpoint);
  Descriptor descriptor{.way = way, .slot = 0, .length = static_cast<std::uint32_t>(data.size())};
  if (way == Way::kInline) {
    if (!data.empty()) std::memcpy(line.payload, data.data(), data.size());
  } else if (way == Way::kSlot) {
    const std::size_t at = (endpoint.sent + 1) % 8 * ((data.size() + 63) / 64 * 64);
    std::memcpy(const_cast<std::byte*>(endpoint.out_slots) + at, data.data(), data.size());
    descriptor.slot = static_cast<std::uint32_t>(at / Descriptor::kSlotUnit);
  } else {
    const Place place{Place::kOwnMemory, reinterpret_cast<std::uint64_t>(data.data())};
    std::memcpy(line.payload, &place, sizeof place);
  }
  publish_line(endpoint, descriptor, signature, {});
}

// The bytes of a message that arrived, wherever they are; `posted` is where they were to be written.
inline std::vector<std::byte> payload_of(const Endpoint& endpoint, const Line& line,
                                         const std::byte* posted = nullptr) {
  const Descriptor descriptor = Descriptor::unpack(line.descriptor);
  const std::byte* from = line.payload;
  if (descriptor.way == Way::kSlot) from = endpoint.in_slots + std::size_t{descriptor.slot} * Descriptor::kSlotUnit;
  if (descriptor.way == Way::kWritten) from = posted;
  if (descriptor.length == 0) return {};
  return {from, from + descriptor.length};
}

inline Way way_of(const Line& line) { return Descriptor::unpack(line.descriptor).way; }

inline void take(Endpoint& endpoint, const Line& line) {
  take_message(endpoint, line);
  settle_credit(endpoint);
}

}  // namespace tutti
