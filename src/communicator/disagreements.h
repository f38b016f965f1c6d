#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.h"
#include "communicator/call_context.h"
#include "executor/call.h"
#include "executor/channel.h"
#include "executor/operation_log.h"

namespace tutti {

// Finds out that ranks are in different calls: looks for messages that this rank does not expect, and compares calls
// over the control plane. One per communicator; used by whoever carries its collectives on.
class Disagreements {
 public:
  Disagreements(const CallContext& context, std::span<const std::unique_ptr<Channel>> channels, OperationLog& log);

  // A message that belongs to another call than the one that met it, and the call of this rank that it contradicts.
  struct Dispute {
    int peer = 0;
    std::uint64_t sequence = 0;
    CallShape shape;
    Clock::time_point asked;
  };
  // Asks the other ranks what they think of it. Never waits. call: the one that is under way; null: none is.
  Dispute open(const CallShape& shape, std::uint64_t sequence, const Call* call, std::uint64_t other_signature,
               int peer) const;
  // Whether it is decided: the communicator has failed then. Names the call of this rank alone when the others do not
  // answer in time.
  bool settled(const Dispute& dispute) const;

  // Ranks that disagree on a call may each wait for somebody who never writes to them. But whoever does write can be
  // seen. Looks for messages of calls up to `sequence` that this rank does not expect, or no longer. call: the one that
  // is under way, whose own messages are expected; null: none is.
  std::optional<Dispute> find_unexpected(const CallShape& shape, std::uint64_t sequence, const Call* call) const;
  // Where a call had nothing to wait for (two ranks that each believe they are the root), a message of it may still lie
  // here when the communicator is destroyed. Blocks until a dispute is settled.
  void check_left_overs(std::uint64_t last_call) const;
  // Compares a call that has waited for long with all ranks that have issued it. Never waits.
  void compare(const CallShape& shape, std::uint64_t sequence) const;

 private:
  // Whether it was a message of this all_to_all_v, with another count for the pair; then the communicator has failed.
  bool report_counts(const Call& call, const CallShape& shape, std::uint64_t other_signature, int peer) const;

  const CallContext& context_;
  std::span<const std::unique_ptr<Channel>> channels_;
  OperationLog& log_;
};

}  // namespace tutti
