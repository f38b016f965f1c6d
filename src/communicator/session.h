#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/health.h"
#include "bootstrap/control_plane.h"
#include "collectives/selector.h"
#include "communicator/call_context.h"
#include "communicator/collective_calls.h"
#include "communicator/communicator_report.h"
#include "communicator/distances.h"
#include "communicator/opening_watch.h"
#include "communicator/transfer_calls.h"
#include "executor/channel.h"
#include "executor/operation_log.h"
#include "executor/point_to_point.h"
#include "schedule/placement.h"
#include "transport/shm/host_group.h"
#include "transport/shm/peer_segments.h"
#include "transport/shm/sleepers.h"
#include "transport/transport.h"
#include "tutti/communicator.h"

namespace tutti {

struct Heritage;  // setup.h

// A communicator at work on one rank: everything that set-up has made, and its calls. Made by
// open_session() (setup.h); its public face is Communicator.
class Session {
 public:
  struct Parts;  // what set-up hands over; see setup.h

  explicit Session(Parts parts);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return layout_.rank; }
  int ranks() const { return layout_.ranks; }
  int hosts() const { return layout_.hosts; }
  const std::string& name() const { return context_.name(); }

  CollectiveCalls& collectives() { return collectives_; }
  TransferCalls& transfers() { return transfers_; }
  OperationLog& log() { return *log_; }
  // The algorithm and the transports of a call of this size: "two_shot over shm".
  std::string plan_text(Collective collective, std::size_t count, DataType type, ReduceOp op) const;
  Statistics statistics() const;

  // The survivors of this communicator, this rank among them, as a new one. Blocks for about `patience` at most.
  std::unique_ptr<Session> shrink(std::chrono::milliseconds patience);
  // Ends every call of this communicator on all ranks. Waits for nobody; any thread.
  void abort(const std::string& reason);
  // The same for something that this rank needs and cannot have.
  void fail(const Error& error);
  // Says goodbye after the calls that were issued. Throws the reason why the communicator failed, if no call has.
  void destroy();

  // For communicators that are split off.
  Heritage heritage() const;
  // Numbers the splits of this communicator, alike on all ranks.
  std::uint64_t next_split() {
    context_.check_usable("split");
    return take_number(splits_);
  }

 private:
  // The others have gone on without this rank, because they heard nothing of it.
  bool was_given_up() const;
  // Waits until no call of this rank writes anywhere any more, and leaves nothing to peers that do. REQUIRES: it has
  // failed. Throws Error.
  void end_failed_calls(Deadline deadline);

  Self self(const std::string& name) const;
  // Nobody asks this for anything any more: no survey, no report.
  void silence();

  const Options options_;  // what it was made with
  const Config config_;
  Placement placement_;
  Layout layout_;

  // What handlers on the control thread use, and what that lies on.
  std::unique_ptr<Health> health_;
  std::unique_ptr<OperationLog> log_;
  std::unique_ptr<HostGroup> group_;
  std::unique_ptr<Sleepers> sleepers_;  // after health_, which tells it of changes
  std::vector<std::unique_ptr<PeerSegments>> peer_segments_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unique_ptr<PointToPoint> point_to_point_;
  std::vector<std::unique_ptr<Transport>> owned_transports_;

  std::unique_ptr<OpeningWatch> opening_;  // over; questions of it may be left in control_
  std::unique_ptr<ControlPlane> control_;

  // What uses control_. The stall watch in context_ answers surveys until silence().
  std::vector<Transport*> transports_;
  std::unique_ptr<Selector> selector_;
  const Distances distances_;
  Arrivals arrivals_;
  std::shared_ptr<Process> process_;  // shared by all communicators; null: this is its only rank, or it has left
  std::shared_ptr<CommunicatorReport> report_;  // shared with the thread that writes it
  CallContext context_;
  CollectiveCalls collectives_;
  TransferCalls transfers_;
  std::mutex leaving_;  // guards the next
  bool left_ = false;   // nobody can be told anything any more
  Word splits_{0};
  const int ranks_per_thread_;
  double setup_seconds_;
  double discovery_seconds_;
};

}  // namespace tutti
