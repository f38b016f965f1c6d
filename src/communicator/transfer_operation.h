#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "communicator/operation.h"
#include "communicator/transfer_calls.h"
#include "executor/point_to_point.h"

namespace tutti {

// One send or receive, from its place among those that match the same messages to its end.
class TransferOperation final : public Operation {
 public:
  // request: checked.
  TransferOperation(TransferCalls& calls, const TransferRequest& request, std::chrono::milliseconds limit);
  ~TransferOperation() override;

  // The calling thread has nothing else to do, and a core of its own.
  void look_longer() { transfer_.looks = kLooks; }

  void issue() override;
  Progress progress() override;
  std::string describe() const override;
  int source() const override { return sending_ ? -1 : transfer_.peer; }

 protected:
  void watch(Clock::duration idle) override;
  void check(Clock::duration idle) override;

 private:
  static constexpr int kLooks = 16;  // some hundred nanoseconds, for which a lock is held

  Progress move();
  Progress end_with(Error error, Phase phase);
  Progress end_with_failure();
  int last_to_leave() const;

  TransferCalls& calls_;
  const bool sending_;
  Transfer transfer_;
  bool done_ = false;
  OperationLog::Entry* entry_ = nullptr;
  std::optional<Clock::time_point> gone_since_;  // the peer said goodbye
};

}  // namespace tutti
