#include "support/world.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <random>
#include <stdexcept>

#include "transport/messages.h"
#include "transport/shm/shm_endpoint.h"

namespace tutti {
namespace {

constexpr int kIdleTurns = 3'000'000;

}  // namespace

World::World(int ranks, const WorldOptions& options)
    : placement_(options.host_of.empty() ? Placement(ranks) : Placement(options.host_of)) {
  for (int h = 0; h < placement_.hosts(); ++h) hosts_.push_back(std::make_unique<Host>());
  const Layout any = placement_.layout(0);
  std::vector<std::uint32_t> area_of;
  for (int r = 0; r < ranks; ++r) {
    Host& host = *hosts_[static_cast<std::size_t>(host_of(any, r))];
    area_of.push_back(static_cast<std::uint32_t>(host.members.size()));
    host.members.push_back(r);
  }
  for (const auto& host : hosts_) {
    host->layout.members = static_cast<std::uint32_t>(host->members.size());
    host->layout.ranks = static_cast<std::uint32_t>(ranks);
    host->layout.channels = static_cast<std::uint32_t>(options.channels);
    host->layout.window = options.window;
    host->layout.large_ring_bytes = options.large_ring_bytes;
    host->segment = Segment::create(host->layout.segment_bytes());
  }
  for (int r = 0; r < ranks; ++r) {
    auto rank = std::make_unique<Rank>();
    rank->layout = placement_.layout(r);
    rank->health = std::make_unique<Health>(ranks);
    Host& host = *hosts_[static_cast<std::size_t>(host_of(any, r))];
    const std::uint32_t own = area_of[static_cast<std::size_t>(r)];
    std::byte* memory = host.segment.data();
    if (static_cast<int>(host.members.size()) < ranks) {
      TcpLimits limits;
      limits.window = options.window;
      limits.max_message_bytes = static_cast<std::uint32_t>(options.large_ring_bytes);
      rank->tcp = std::make_unique<TcpTransport>(
          r, ranks, *rank->health, [](int) {}, limits);
      rank->transports.push_back(rank->tcp.get());
    }
    for (int peer = 0; peer < ranks; ++peer) {
      const bool local = host_of(any, peer) == host_of(any, r);
      rank->segments.push_back(local ? std::make_unique<PeerSegments>(confirmed_word(
                                           host.layout, memory, own, area_of[static_cast<std::size_t>(peer)]))
                                     : nullptr);
    }
    for (int c = 0; c < options.channels; ++c) {
      const auto index = static_cast<std::uint32_t>(c);
      auto channel =
          std::make_unique<Channel>(rank->layout, c, memory + host.layout.area(own),
                                    SlotRing(host.layout.small_ring(index), host.layout.small_ring_bytes, 0),
                                    SlotRing(host.layout.large_ring(index), host.layout.large_ring_bytes, 1));
      for (Endpoint& endpoint : channel->endpoints()) {
        if (endpoint.peer == r) continue;
        if (host_of(any, endpoint.peer) == host_of(any, r)) {
          connect_shared_memory(endpoint, host.layout, memory, index, own, area_of[endpoint.peer]);
          endpoint.segments = rank->segments[endpoint.peer].get();
        } else {
          rank->tcp->add_endpoint(endpoint);
        }
      }
      rank->channels.push_back(std::move(channel));
    }
    rank->executor = std::make_unique<HostExecutor>(
        ExecutorParts{rank->channels, rank->transports, *rank->health, progress_word(host.layout, memory, own)});
    rank->executor->read_in_place_from(0);  // tests use small messages
    ranks_.push_back(std::move(rank));
  }
  for (int low = 0; low < ranks; ++low) {
    for (int high = low + 1; high < ranks; ++high) {
      if (host_of(any, low) == host_of(any, high)) continue;
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        throw std::runtime_error("socketpair failed");
      }
      ranks_[static_cast<std::size_t>(low)]->tcp->attach(high, UniqueFd(pair[0]), true);
      ranks_[static_cast<std::size_t>(high)]->tcp->attach(low, UniqueFd(pair[1]), false);
    }
  }
}

// Endings wait for peers' systems to have taken everything, and here all peers end in one thread, one after the other.
World::~World() {
  for (const auto& rank : ranks_) {
    if (rank->tcp != nullptr) rank->health->fail(ErrorCode::kRemote, "the test is over");
  }
}

bool World::drive(std::vector<Call>& calls, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<bool> done(calls.size(), false);
  std::size_t left = calls.size();
  for (int idle = 0; left > 0 && idle < kIdleTurns; ++idle) {
    const std::size_t r = random() % calls.size();
    for (Transport* transport : ranks_[r]->transports) {
      if (transport->progress()) idle = 0;
    }
    if (done[r]) continue;
    const auto before = calls[r].cursors;
    switch (executor(static_cast<int>(r)).progress(calls[r])) {
      case Progress::kDone:
        done[r] = true;
        --left;
        idle = 0;
        break;
      case Progress::kFailed:
        return false;
      case Progress::kAgain:
        for (std::size_t c = 0; c < before.size(); ++c) {
          if (before[c].step != calls[r].cursors[c].step || before[c].round != calls[r].cursors[c].round) idle = 0;
        }
        break;
    }
  }
  return left == 0;
}

bool World::quiet() {
  for (const auto& rank : ranks_) {
    for (const auto& channel : rank->channels) {
      for (const Endpoint& endpoint : channel->endpoints()) {
        if (endpoint.in != nullptr && arrived(endpoint) != nullptr) return false;
      }
    }
  }
  return true;
}

}  // namespace tutti
