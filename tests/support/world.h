#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/health.h"
#include "executor/call.h"
#include "executor/channel.h"
#include "executor/host_executor.h"
#include "executor/plan.h"
#include "schedule/placement.h"
#include "transport/shm/host_group.h"
#include "transport/shm/peer_segments.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti {

struct WorldOptions {
  std::vector<int> host_of;  // by rank; empty: all on one host
  int channels = 1;
  std::uint32_t window = 4;
  std::size_t large_ring_bytes = 256 * 1024;
};

// All ranks of a communicator in one process, down to executors and transports, without bootstrap: ranks of one host
// share a segment, the others talk over TCP on socket pairs. Meant to be driven by one thread: every rank's call is
// carried on a little in turn, so that a hang is a loop that ends with a message.
class World {
 public:
  World(int ranks, const WorldOptions& options);
  ~World();

  int ranks() const { return static_cast<int>(ranks_.size()); }
  const Layout& layout(int rank) const { return ranks_[static_cast<std::size_t>(rank)]->layout; }
  HostExecutor& executor(int rank) { return *ranks_[static_cast<std::size_t>(rank)]->executor; }
  Channel& channel(int rank, int index) {
    return *ranks_[static_cast<std::size_t>(rank)]->channels[static_cast<std::size_t>(index)];
  }
  // Lets the rank's transports carry what is there.
  void poll(int rank) {
    for (Transport* transport : ranks_[static_cast<std::size_t>(rank)]->transports) transport->progress();
  }
  Health& health(int rank) { return *ranks_[static_cast<std::size_t>(rank)]->health; }

  // Carries all calls on, in an order that `seed` decides, until all are done or one has failed. Returns false when
  // nobody gets on any more: a deadlock.
  bool drive(std::vector<Call>& calls, std::uint64_t seed = 1);
  // Whether no connection has a message that nobody took.
  bool quiet();

 private:
  struct Rank {
    Layout layout;
    std::unique_ptr<Health> health;
    std::vector<std::unique_ptr<PeerSegments>> segments;
    std::vector<std::unique_ptr<Channel>> channels;
    std::unique_ptr<TcpTransport> tcp;
    std::vector<Transport*> transports;
    std::unique_ptr<HostExecutor> executor;
  };
  struct Host {
    std::vector<int> members;
    SegmentLayout layout;
    Segment segment;
  };

  Placement placement_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace tutti
