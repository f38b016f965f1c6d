#include "communicator/transfer_operation.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "communicator/disagreements.h"

namespace tutti {
namespace {

constexpr std::size_t kTimedBytes = std::size_t{1} << 20;  // from which the time of a transfer's end is worth knowing

}  // namespace

TransferOperation::TransferOperation(TransferCalls& calls, const TransferRequest& request,
                                     std::chrono::milliseconds limit)
    : Operation(calls.context_, limit), calls_(calls), sending_(request.sending) {
  transfer_.peer = request.peer;
  transfer_.tag = request.tag;
  transfer_.type = request.type;
  transfer_.count = request.count;
  transfer_.input = request.input;
  transfer_.output = request.output;
  running_ = true;
}

TransferOperation::~TransferOperation() {
  if (!done_) calls_.point_to_point_.withdraw(transfer_);
  OperationLog::end(entry_, Phase::kCancelled, true);
}

void TransferOperation::issue() {
  entry_ = context_.log().enter_transfer(sending_, transfer_.type, transfer_.count, transfer_.peer, transfer_.tag);
  calls_.point_to_point_.post(transfer_, sending_);
}

Progress TransferOperation::progress() {
  if (context_.closed()) return end_with(context_.closed_error(sending_ ? "send" : "recv"), Phase::kCancelled);
  const Transfer::Stage stage = transfer_.stage;
  const std::size_t moved = transfer_.moved;
  const Progress progress = move();
  if (progress == Progress::kFailed) return end_with_failure();
  if (progress == Progress::kDone && context_.flush_transports()) {
    (sending_ ? calls_.sends_ : calls_.receives_).count(transfer_.bytes());
    OperationLog::end(std::exchange(entry_, nullptr), Phase::kDone, transfer_.bytes() >= kTimedBytes);
    done_ = true;
    context_.sleepers().tell_own();
    return Progress::kDone;
  }
  advanced_ = transfer_.stage != stage || transfer_.moved != moved;
  // Another transfer with this peer may be next, and another thread's.
  if (advanced_) context_.sleepers().tell_own();
  return Progress::kAgain;
}

Progress TransferOperation::move() {
  PointToPoint& point_to_point = calls_.point_to_point_;
  try {
    return sending_ ? point_to_point.progress_send(transfer_) : point_to_point.progress_receive(transfer_);
  } catch (const Error& error) {
    context_.fail_locally(error);
  } catch (const std::bad_alloc&) {
    context_.fail_locally(CallContext::out_of_memory());
  }
  return Progress::kFailed;
}

void TransferOperation::watch(Clock::duration idle) { OperationLog::wait(entry_, transfer_.peer, idle); }

// A rank that has left sends nothing more: what it sent before has been taken, or its sends would not have returned.
void TransferOperation::check(Clock::duration) {
  Health& health = context_.health();
  const int peer = transfer_.peer == kAnySource ? last_to_leave() : transfer_.peer;
  if (peer == context_.rank() || health.left_after(peer) == Health::kStillHere) return;
  if (!gone_since_) gone_since_ = Clock::now();
  if (Clock::now() - *gone_since_ < Disagreements::kLastWords) return;
  health.fail(ErrorCode::kRemote,
              fmt::format("{} has left and will not {} this message", context_.control().describe(peer),
                          sending_ ? "receive" : "send"),
              peer);
}

// A rank that is still here, else one that has left. This rank itself counts only when it is alone: whoever receives
// from any source mostly means others.
int TransferOperation::last_to_leave() const {
  int peer = context_.rank();
  for (int r = 0; r < context_.ranks(); ++r) {
    if (r == context_.rank()) continue;
    peer = r;
    if (context_.health().left_after(r) == Health::kStillHere) break;
  }
  return peer;
}

Progress TransferOperation::end_with_failure() {
  if (Health& health = context_.health(); !health.failed()) {
    ControlPlane& control = context_.control();
    const auto mismatch = calls_.point_to_point_.mismatch(transfer_.peer);
    const std::string reason =
        fmt::format("{} sends {}×{} where {} receives {}×{} (tag {}): count and type must be equal",
                    control.describe(transfer_.peer), tutti::name(mismatch->type), mismatch->count,
                    control.describe(context_.rank()), tutti::name(transfer_.type), transfer_.count, transfer_.tag);
    if (health.fail(ErrorCode::kMismatch, reason)) {
      control.poison(ErrorCode::kMismatch, reason, Error::kNoPeer);
    }
  }
  return end_with(context_.failure_of(describe()), Phase::kFailed);
}

Progress TransferOperation::end_with(Error error, Phase phase) {
  OperationLog::end(std::exchange(entry_, nullptr), phase, true);
  return fail(std::move(error));
}

std::string TransferOperation::describe() const {
  return fmt::format("{} {}×{} {} {} tag {} of \"{}\"", sending_ ? "send" : "recv", tutti::name(transfer_.type),
                     transfer_.count, sending_ ? "to" : "from",
                     transfer_.peer == kAnySource ? "any" : std::to_string(transfer_.peer), transfer_.tag,
                     context_.name());
}

}  // namespace tutti
