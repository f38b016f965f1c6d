#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/arguments.h"
#include "communicator/collective_calls.h"
#include "communicator/disagreements.h"
#include "communicator/operation.h"
#include "executor/call.h"
#include "executor/signature.h"

namespace tutti {

// One collective, from its place in the order of its communicator to its end.
class CollectiveOperation final : public Operation {
 public:
  // arguments: checked.
  CollectiveOperation(CollectiveCalls& calls, const CollectiveArguments& arguments, bool in_place,
                      std::chrono::milliseconds limit);
  // One that was issued and has not ended fails the communicator: peers would wait for it, and the calls behind it.
  ~CollectiveOperation() override;

  void issue() override { take_over(calls_.order_.take(), nullptr); }
  // In place of issue(): it has this number, and, unless `begun` is null, is that call, begun by CollectiveCalls.
  void take_over(std::uint64_t turn, const Call* begun);
  Progress progress() override;
  std::string describe() const override;
  std::uint64_t sequence() const override { return turn_ + 1; }

 protected:
  void watch(Clock::duration idle) override;
  void check(Clock::duration idle) override;
  void check_last_messages(int peer, Clock::duration idle);
  Clock::duration check_interval() const override;

 private:
  Progress wait_for_turn();
  // Its turn has come. False: it has failed.
  bool begin();
  Progress carry_on();
  // A step or more of it; what goes wrong is in Health, or Executor::mismatch().
  Progress execute();
  Progress end();
  Progress end_with(const Error& error);
  Progress end_with_failure();
  void pass_turn();

  CollectiveCalls& calls_;
  const CallShape shape_;
  const std::size_t bytes_;  // of the larger side, on the rank that has most: what algorithms are chosen by
  const std::shared_ptr<const BlockCounts> blocks_;  // of a vector form: shared with nobody who changes it
  Call call_;
  std::uint64_t turn_ = 0;
  bool holds_turn_ = false;  // has taken the number, and neither passed it nor given it up
  bool compared_ = false;
  Wait wait_;
  std::size_t arrived_ = 0;                        // of the other ranks of this host, in the order of Arrivals
  std::optional<Disagreements::Dispute> dispute_;  // it waits for the verdict, and for nothing else
};

}  // namespace tutti
