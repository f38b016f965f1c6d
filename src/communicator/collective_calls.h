#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/selector.h"
#include "communicator/arguments.h"
#include "communicator/arrivals.h"
#include "communicator/call_context.h"
#include "communicator/call_counter.h"
#include "communicator/disagreements.h"
#include "communicator/operation.h"
#include "communicator/short_calls.h"
#include "communicator/turn.h"
#include "executor/executor.h"
#include "executor/plan.h"
#include "reduce/reduce.h"
#include "tutti/communicator.h"

namespace tutti {

// The collectives of a communicator on one rank: their order, and what all of them use. Owned by the Session.
class CollectiveCalls {
 public:
  struct Parts {
    const Layout& layout;
    bool reproducible;
    const Selector& selector;
    std::span<const std::unique_ptr<Channel>> channels;
    Word& progress;   // this rank's word that peers read when they lack credit
    Word& long_call;  // the last long one that it has begun
    Line& notice;     // where it says where its output lies
    Word& started;    // and the one that they read when they wait for this rank
    Word* processor;  // where this rank tells them where it runs; null: every rank has a processor
    Arrivals& arrivals;
  };
  CollectiveCalls(CallContext& context, const Parts& parts);

  // Blocks until the collective is done on this rank; returns its number. Throws Error.
  std::uint64_t run(const CollectiveArguments& arguments, std::chrono::milliseconds limit);
  // Checks the arguments, then makes a call that is not issued yet. Throws Error(kInvalidArgument).
  std::unique_ptr<Operation> prepare(const CollectiveArguments& arguments, std::chrono::milliseconds limit);

  // After the communicator has failed and its calls have ended: what peers still write to this rank's outputs is no
  // longer seen there. REQUIRES: its turn, or nobody else can have it. Throws Error(kSystem).
  void take_back_outputs() {
    executor_->withdraw();
    executor_->take_back_outputs();
  }

  TurnOrder& order() { return order_; }
  const Disagreements& disagreements() const { return disagreements_; }

  // The algorithm of a call of this size.
  std::string_view algorithm(Collective collective, std::size_t count, DataType type, ReduceOp op) const;
  void count_into(Statistics& statistics) const;

 private:
  friend class CollectiveOperation;

  const Choice& choose(Collective collective, std::size_t bytes, ReduceOp op, DataType type) const {
    return selector_.choose(collective, bytes, needs_all_at_once(op, type));
  }
  // Throws Error(kInvalidSetting) where there is none.
  const Plan& plan_for(const Choice& choice);
  // Null: no call of this shape was kept, or it must not run. REQUIRES: its turn.
  ShortCall* find_short(const CollectiveArguments& arguments);
  // Makes the call, and passes the turn. False: it has begun and waits for peers, or has failed.
  bool repeat(ShortCall& kept, const CollectiveArguments& arguments, bool in_place, std::uint64_t turn);

  CallContext& context_;
  const Layout& layout_;
  const bool reproducible_;
  const Selector& selector_;
  Arrivals& arrivals_;
  std::unique_ptr<Executor> executor_;
  Disagreements disagreements_;
  std::vector<std::unique_ptr<Plan>> plans_;  // by the algorithm's number in the registry; guarded by the turn
  ShortCalls short_calls_;                    // guarded by the turn
  TurnOrder order_;
  std::array<CallCounter, kCollectives> counters_;
};

}  // namespace tutti
