#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "communicator/operation.h"
#include "communicator/outstanding.h"
#include "communicator/work_state.h"
#include "executor/waiter.h"
#include "transport/transport.h"

namespace tutti {

// A call that is carried on for somebody who does not wait for it in its function, or not for it alone.
struct PendingCall {
  // Shared: what the operation works on lives until it has ended, whatever becomes of the Communicator.
  std::shared_ptr<const void> home;
  std::unique_ptr<OutstandingCalls, LeaveOutstanding> outstanding;  // its communicator's, from its issue on
  std::unique_ptr<Operation> operation;
  std::shared_ptr<detail::WorkState> work;  // of this call alone; shared with the caller's Work
  bool started = false;
  bool ended = false;
  bool failed = false;
};
using Batch = std::vector<PendingCall>;

// Issues calls: each takes its place among the calls of its communicator, in this order. group: what stands for all of
// them; null: there is one. Throws Error(kInvalidArgument) for a communicator that was destroyed; nothing was issued
// then. Throws nothing once a place was taken.
void issue_calls(Batch& collectives, Batch& transfers, detail::WorkState* group);

// Operations that progress together: those of a stream, or of a group. Collectives come in batches: the calls of one
// batch progress together, and the next batch begins when all have ended. Transfers have no order among each other.
// Has no thread: whoever calls lends it one. One thread at a time.
class Rotation {
 public:
  // Even where something always moves, now and then somebody has to look_around().
  static constexpr std::uint32_t kRoundsPerLook = 4096;

  // The calls were issued.
  void add(Batch collectives, Batch transfers);

  // Carries everything on that can get on. Returns whether anything moved. Never sleeps. waiter: of whoever calls; it
  // is told where to sleep, and begins anew when something moved.
  bool round(Waiter& waiter);
  // While nothing moves: time for what costs more than a look at memory.
  void look_around(Waiter& waiter);
  // When that is due at the latest, as far as the last look knows.
  Clock::time_point due() const { return due_; }
  // Works whose last call has ended, but for calls of groups that do not call back; in the order in which their
  // callbacks run, to be settled without the locks of whoever owns this. A group comes after its calls.
  std::vector<std::shared_ptr<detail::WorkState>>& ended() { return ended_; }

  bool empty() const { return queue_.empty() && transfers_.empty(); }
  // For whose publications the operations at work wait; valid until the next round.
  std::span<Sleepers* const> sleepers() const { return sleepers_; }

 private:
  bool carry_on(PendingCall& call);
  bool progress_transports(Waiter& waiter);
  void retire(Waiter& waiter);
  void find_contexts();
  template <class Function>
  void for_each_active(Function function);

  std::deque<Batch> queue_;
  Batch transfers_;
  // Of the operations at work, each once.
  std::vector<CallContext*> contexts_;
  std::vector<Transport*> transports_;
  std::vector<Sleepers*> sleepers_;
  Clock::time_point due_ = Clock::time_point::max();
  bool some_ended_ = false;
  std::vector<std::shared_ptr<detail::WorkState>> ended_;
};

}  // namespace tutti
