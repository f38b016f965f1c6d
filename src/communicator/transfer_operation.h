#pragma once

#include <string>
#include <vector>

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
  std::size_t received() const override { return sending_ ? 0 : transfer_.count; }
  // Of a probe that is done: the type of the message.
  DataType type() const { return transfer_.type; }

  // Of a probe, once, instead of being carried on until it has ended: answers what there is now.
  Progress glance();

 protected:
  void watch(Clock::duration idle) override;
  void check(Clock::duration idle) override;

 private:
  static constexpr int kLooks = 16;  // some hundred nanoseconds, for which a lock is held

  const char* verb() const { return sending_ ? "send" : transfer_.probes ? "probe" : "recv"; }
  bool peer_has_left();
  Progress move();
  Progress end_with(Error error, Phase phase);
  Progress end_with_failure();
  void fail_for_leaver();
  int last_to_leave() const;

  TransferCalls& calls_;
  const bool sending_;
  Transfer transfer_;
  bool done_ = false;
  OperationLog::Entry* entry_ = nullptr;
  bool last_look_ = false;  // the peer has left, and all that it has sent is there
  bool full_said_ = false;
};

}  // namespace tutti
