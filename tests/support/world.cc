#include "support/world.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "transport/messages.h"
#include "transport/shm/shm_endpoint.h"

namespace tutti {
namespace {

constexpr int kIdleTurns = 3'000'000;

}  // namespace

World::World(int ranks, const WorldOptions& options)
    : channels_(static_cast<std::uint32_t>(options.channels)),
      placement_(options.host_of.empty() ? std::vector<int>(static_cast<std::size_t>(ranks), 0) : options.host_of,
                 options.group_of) {
  for (int h = 0; h < placement_.hosts(); ++h) hosts_.push_back(std::make_unique<Host>());
  const Layout any = placement_.layout(0);
  if (options.faults) {
    faults_ =
        std::make_unique<FaultNetwork>(ranks, options.window, std::max(options.large_ring_bytes, options.piece_bytes));
  }
  for (int r = 0; r < ranks; ++r) {
    Host& host = *hosts_[static_cast<std::size_t>(host_of(any, r))];
    area_of_.push_back(static_cast<std::uint32_t>(host.members.size()));
    host.members.push_back(r);
  }
  for (const auto& host : hosts_) {
    host->layout.members = static_cast<std::uint32_t>(host->members.size());
    host->layout.ranks = static_cast<std::uint32_t>(ranks);
    host->layout.channels = static_cast<std::uint32_t>(options.channels);
    host->layout.window = options.window;
    host->layout.large_ring_bytes = options.large_ring_bytes;
    host->layout.piece_bytes = options.piece_bytes;
    host->segment = Segment::create(host->layout.segment_bytes());
  }
  for (int r = 0; r < ranks; ++r) {
    auto rank = std::make_unique<Rank>();
    rank->layout = placement_.layout(r);
    rank->health = std::make_unique<Health>(ranks);
    Host& host = *hosts_[static_cast<std::size_t>(host_of(any, r))];
    const std::uint32_t own = area_of_[static_cast<std::size_t>(r)];
    std::byte* memory = host.segment.data();
    if (faults_ != nullptr) {
      rank->faulty = &faults_->add_rank(*rank->health);
      rank->transports.push_back(rank->faulty);
    } else if (static_cast<int>(host.members.size()) < ranks) {
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
                                           host.layout, memory, own, area_of_[static_cast<std::size_t>(peer)]))
                                     : nullptr);
    }
    for (int c = 0; c < options.channels; ++c) {
      const auto index = static_cast<std::uint32_t>(c);
      auto channel =
          std::make_unique<Channel>(rank->layout, c, memory + host.layout.area(own),
                                    SlotRing(host.layout.small_ring(index), host.layout.small_ring_bytes, 0),
                                    SlotRing(host.layout.large_ring(index), host.layout.large_ring_bytes, 1));
      rank->channels.push_back(std::move(channel));
    }
    rank->executor = std::make_unique<HostExecutor>(
        ExecutorParts{rank->channels, rank->transports, *rank->health, progress_word(host.layout, memory, own), nullptr,
                      &long_call_word(host.layout, memory, own), &output_notice(host.layout, memory, own)});
    rank->executor->read_in_place_from(0);  // tests use small messages
    ranks_.push_back(std::move(rank));
    for (const auto& channel : ranks_.back()->channels) {
      for (Endpoint& endpoint : channel->endpoints()) {
        if (endpoint.peer == r) continue;
        connect(r, endpoint, endpoint.channel);
        endpoint.hop_ns = options.hop_ns;
      }
    }
  }
  for (int low = 0; faults_ == nullptr && low < ranks; ++low) {
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

bool World::drive(std::span<Call* const> calls, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<bool> done(calls.size(), false);
  std::size_t left = calls.size();
  for (int idle = 0; left > 0 && idle < kIdleTurns; ++idle) {
    const std::size_t r = random() % calls.size();
    for (Transport* transport : ranks_[r]->transports) {
      if (transport->progress()) idle = 0;
    }
    if (done[r]) continue;
    const auto before = calls[r]->cursors;
    switch (executor(static_cast<int>(r)).progress(*calls[r])) {
      case Progress::kDone:
        done[r] = true;
        --left;
        idle = 0;
        break;
      case Progress::kFailed:
        return false;
      case Progress::kAgain:
        for (std::size_t c = 0; c < static_cast<std::size_t>(calls[r]->channels); ++c) {
          if (before[c].step != calls[r]->cursors[c].step || before[c].round != calls[r]->cursors[c].round) idle = 0;
        }
        break;
    }
  }
  return left == 0;
}

std::vector<Ending> World::run(std::span<Task> tasks, std::uint64_t seed, bool done_ranks_leave) {
  constexpr int kTurnsToGetStuck = 300;  // of each task; more than anybody counts before it does something for others
  std::mt19937_64 random(seed);
  std::vector<Ending> endings(tasks.size(), Ending::kStuck);
  std::vector<int> going_on(ranks_.size(), 0);
  for (const Task& task : tasks) ++going_on[static_cast<std::size_t>(task.rank)];
  std::size_t left = tasks.size();
  const auto active = [&](int rank) {
    return !faults_->killed(rank) && (!done_ranks_leave || going_on[static_cast<std::size_t>(rank)] > 0);
  };
  const auto end = [&](std::size_t task, Ending ending) {
    endings[task] = ending;
    --going_on[static_cast<std::size_t>(tasks[task].rank)];
    --left;
  };
  const int patience = kTurnsToGetStuck * static_cast<int>(tasks.size());
  for (int idle = 0; left > 0; ++idle) {
    if (idle > patience) {
      bool pending = false;
      for (int r = 0; r < ranks(); ++r) pending |= active(r) && faults_->pending(r);
      if (!pending) break;
      idle = 0;
    }
    const std::size_t at = random() % tasks.size();
    const Task& task = tasks[at];
    if (active(task.rank)) poll(task.rank);
    if (endings[at] != Ending::kStuck) continue;
    if (faults_->killed(task.rank)) {
      end(at, Ending::kKilled);
      continue;
    }
    const Task::Turn turn = task.turn();
    if (turn.moved || turn.progress != Progress::kAgain) idle = 0;
    if (turn.progress == Progress::kDone) end(at, Ending::kDone);
    if (turn.progress != Progress::kFailed) continue;
    task.failed();
    end(at, Ending::kFailed);
  }
  return endings;
}

Task World::task(int rank, Call& call) {
  HostExecutor& host = executor(rank);
  return {rank,
          [&host, &call] {
            const Progress progress = host.progress(call);
            return Task::Turn{progress, host.advanced()};
          },
          [&host] { host.withdraw(); }};
}

void World::connect(int rank, Endpoint& endpoint, std::uint32_t connection) {
  Rank& self = *ranks_[static_cast<std::size_t>(rank)];
  endpoint.channel = static_cast<std::uint8_t>(connection);
  const int host = host_of(self.layout, rank);
  if (host_of(self.layout, endpoint.peer) == host) {
    Host& shared = *hosts_[static_cast<std::size_t>(host)];
    connect_shared_memory(endpoint, shared.layout, shared.segment.data(), connection,
                          area_of_[static_cast<std::size_t>(rank)], area_of_[endpoint.peer]);
    if (connection < channels_) endpoint.segments = self.segments[endpoint.peer].get();
  } else if (self.faulty != nullptr) {
    self.faulty->add_endpoint(endpoint);
  } else {
    self.tcp->add_endpoint(endpoint);
  }
}

PointToPoint& World::point_to_point(int rank) {
  Rank& self = *ranks_[static_cast<std::size_t>(rank)];
  if (self.point_to_point != nullptr) return *self.point_to_point;
  const Host& host = *hosts_[static_cast<std::size_t>(host_of(self.layout, rank))];
  PointToPoint::Wiring wiring;
  wiring.slots = host.segment.data() + host.layout.area(area_of_[static_cast<std::size_t>(rank)]);
  wiring.piece_bytes = host.layout.piece_bytes;
  wiring.pieces = [&host](int peer) { return host.layout.pieces(static_cast<std::uint32_t>(peer)); };
  wiring.reserve = [](std::size_t, std::size_t) {};
  wiring.connect = [this, rank](PointToPoint::Connection connection, Endpoint& endpoint) {
    connect(rank, endpoint, channels_ + static_cast<std::uint32_t>(connection));
  };
  self.point_to_point = std::make_unique<PointToPoint>(ranks(), *self.health, std::move(wiring));
  return *self.point_to_point;
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
