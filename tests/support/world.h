#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/health.h"
#include "executor/call.h"
#include "executor/channel.h"
#include "executor/host_executor.h"
#include "executor/plan.h"
#include "executor/point_to_point.h"
#include "schedule/placement.h"
#include "support/fault_transport.h"
#include "transport/shm/host_group.h"
#include "transport/shm/peer_segments.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti {

struct WorldOptions {
  std::vector<int> host_of;  // by rank; empty: all on one host
  int channels = 1;
  std::uint32_t window = 4;
  std::size_t large_ring_bytes = 256 * 1024;
  std::size_t piece_bytes = 64 * 1024;  // of point-to-point
  std::uint32_t hop_ns = 0;             // between ranks of one host, as Endpoint::hop_ns
  bool faults = false;                  // a FaultNetwork between hosts, in place of TCP
  std::vector<int> group_of = {};       // by rank, of one host; empty: no groups
};

// Something that a rank does in turns.
struct Task {
  struct Turn {
    Progress progress;
    bool moved;
  };
  int rank;
  std::function<Turn()> turn;
  std::function<void()> failed = [] {};  // once, after it has
};

// How a task ended.
enum class Ending {
  kDone,
  kFailed,
  kStuck,   // it waits for what will never come
  kKilled,  // its rank was killed
};

// All ranks of a communicator in one process, down to executors and transports, without bootstrap: ranks of one host
// share a segment, the others talk over TCP on socket pairs or over a FaultNetwork. Meant to be driven by one thread:
// every rank's call is carried on a little in turn, so that a hang is a loop that ends with a message.
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
  // Asks them to hand over what they hold back; whether they have.
  bool flush(int rank) {
    bool flushed = true;
    for (Transport* transport : ranks_[static_cast<std::size_t>(rank)]->transports) flushed &= transport->flush();
    return flushed;
  }
  Health& health(int rank) { return *ranks_[static_cast<std::size_t>(rank)]->health; }
  // REQUIRES: options.faults.
  FaultNetwork& faults() { return *faults_; }
  // Made at first use.
  PointToPoint& point_to_point(int rank);

  // Carries all calls on, in an order that `seed` decides, until all are done or one has failed. Returns false when
  // nobody gets on any more: a deadlock.
  bool drive(std::span<Call* const> calls, std::uint64_t seed = 1);
  // Gives tasks turns, in an order that `seed` decides, until each has ended or nobody gets on any more. Several tasks
  // of a rank go on side by side. done_ranks_leave: a rank whose tasks have all ended does nothing more, not even for
  // its transports. REQUIRES: options.faults.
  std::vector<Ending> run(std::span<Task> tasks, std::uint64_t seed, bool done_ranks_leave = false);
  Task task(int rank, Call& call);
  // Whether no connection has a message that nobody took.
  bool quiet();

 private:
  struct Rank {
    Layout layout;
    std::unique_ptr<Health> health;
    std::vector<std::unique_ptr<PeerSegments>> segments;
    std::vector<std::unique_ptr<Channel>> channels;
    std::unique_ptr<TcpTransport> tcp;
    FaultTransport* faulty = nullptr;  // the network's
    std::vector<Transport*> transports;
    std::unique_ptr<HostExecutor> executor;
    std::unique_ptr<PointToPoint> point_to_point;
  };
  struct Host {
    std::vector<int> members;
    SegmentLayout layout;
    Segment segment;
  };

  void connect(int rank, Endpoint& endpoint, std::uint32_t connection);

  const std::uint32_t channels_;
  Placement placement_;
  std::vector<std::uint32_t> area_of_;  // by rank
  std::unique_ptr<FaultNetwork> faults_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace tutti
