#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/health.h"
#include "bootstrap/control_plane.h"
#include "collectives/selector.h"
#include "communicator/arguments.h"
#include "communicator/turn.h"
#include "executor/call.h"
#include "executor/channel.h"
#include "executor/executor.h"
#include "executor/operation_log.h"
#include "executor/plan.h"
#include "executor/point_to_point.h"
#include "schedule/placement.h"
#include "transport/shm/host_group.h"
#include "transport/shm/peer_segments.h"
#include "transport/transport.h"
#include "tutti/communicator.h"

namespace tutti {

// A communicator at work on one rank: everything that set-up has made, and the order of its calls. Made by
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
  const std::string& name() const { return name_; }

  // Blocks until the collective is done on this rank. Throws Error.
  void run(const CollectiveArguments& arguments);
  // Block until the message is taken, or is there. receive() returns the sender; `from` may be kAnySource.
  void send(const void* input, std::size_t count, DataType type, int to, int tag);
  int receive(void* output, std::size_t count, DataType type, int from, int tag);
  // The algorithm and the transports of a call of this size: "two_shot over shm".
  std::string plan_text(Collective collective, std::size_t count, DataType type) const;
  Statistics statistics() const;
  void destroy();

 private:
  // A rank's last acknowledgements and its goodbye travel on different ways: the goodbye may be here first.
  static constexpr std::chrono::milliseconds kLastWords{200};

  struct Counter {
    Word calls{0};
    Word bytes{0};
  };

  // collective_calls.cc
  void execute(Call& call, const CallShape& shape, const Choice& choice);
  void drive(Call& call, const CallShape& shape);
  // What costs more than a look at memory, now and then during a long wait. Throws when the call cannot end.
  void check_wait(Call& call, const CallShape& shape, Clock::duration waited, bool& compared);
  // Looks for messages of calls up to `sequence` that this rank does not expect, or no longer.
  // call: the one that is under way, whose own messages are expected; null: none is.
  void check_unexpected_messages(const CallShape& shape, std::uint64_t sequence, const Call* call);
  void check_left_overs();
  // Whether it was a message of this all_to_all_v, with another count for the pair; then the communicator has failed.
  bool report_counts(const Call& call, const CallShape& shape, std::uint64_t other_signature, int peer);
  void report_mismatch(const CallShape& shape, std::uint64_t sequence, std::uint64_t other_signature, int peer);
  [[noreturn]] void fail_call(const CallShape& shape, std::uint64_t sequence);
  void answer_comparisons();

  // transfer_calls.cc
  // Carries a send or a receive on until it is done.
  void drive(Transfer& transfer, bool sending);
  void check_wait(const Transfer& transfer, bool sending, std::optional<Clock::time_point>& gone_since);
  int last_to_leave() const;
  [[noreturn]] void fail_transfer(const Transfer& transfer, bool sending);

  const Plan& plan_for(const Choice& choice);
  void check_open(const char* call) const;
  bool progress_transports();
  bool flush_transports();
  void fail_locally(const Error& error);
  static Error out_of_memory();
  static void count_call(Counter& counter, std::size_t bytes);

  std::string name_;
  Placement placement_;
  Layout layout_;
  bool reproducible_;
  std::unique_ptr<Health> health_;
  std::unique_ptr<OperationLog> log_;
  std::unique_ptr<HostGroup> group_;
  std::vector<std::unique_ptr<PeerSegments>> peer_segments_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unique_ptr<PointToPoint> point_to_point_;
  std::vector<std::unique_ptr<Transport>> owned_transports_;
  std::vector<Transport*> transports_;
  std::unique_ptr<Selector> selector_;
  std::unique_ptr<ControlPlane> control_;  // after what its handlers use
  std::unique_ptr<Executor> executor_;
  std::vector<std::unique_ptr<Plan>> plans_;  // by the algorithm's number in the registry
  bool spin_;

  TurnOrder order_;
  std::uint64_t sequence_ = 0;  // of the last call issued; guarded by the turn

  std::array<Counter, kCollectives> counters_;
  Counter sends_;
  Counter receives_;
  double setup_seconds_;
  double discovery_seconds_;
  Word destroyed_{0};
  Word told_{0};  // some call of this rank has thrown the reason why the communicator failed
};

}  // namespace tutti
