#include "communicator/transfer_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"

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
  transfer_.probes = request.probing;
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

Progress TransferOperation::glance() {
  context_.progress_transports();
  if (const Progress progress = this->progress(); progress != Progress::kAgain) return progress;
  check({});
  return this->progress();
}

Progress TransferOperation::progress() {
  const bool last_look = last_look_;
  const Progress progress = move();
  if (progress == Progress::kFailed) return end_with_failure();
  // After a failure the peer hears of nothing more, and what is here is here.
  if (progress == Progress::kDone && (context_.flush_transports() || context_.health().failed())) {
    if (!transfer_.probes) (sending_ ? calls_.sends_ : calls_.receives_).count(transfer_.bytes());
    OperationLog::end(std::exchange(entry_, nullptr), Phase::kDone, transfer_.bytes() >= kTimedBytes);
    done_ = true;
    context_.sleepers().tell_own();
    return Progress::kDone;
  }
  if (context_.closed()) return end_with(context_.closed_error(verb()), Phase::kCancelled);
  advanced_ = transfer_.advanced;
  // Another transfer with this peer may be next, and another thread's.
  if (advanced_ || transfer_.helped) context_.sleepers().tell_own();
  if (last_look && progress == Progress::kAgain && !advanced_ &&
      calls_.point_to_point_.is_in_vain(transfer_, sending_)) {
    fail_for_leaver();
    return end_with_failure();
  }
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

// A rank that has left sends and takes nothing more. What it has sent and taken before comes ahead of its goodbye where
// memory is shared, and ahead of the end of its connection elsewhere: then this looks once more, and knows.
void TransferOperation::check(Clock::duration idle) {
  last_look_ = last_look_ || peer_has_left();
  if (full_said_ || !sending_ || idle < context_.stall_warning() || context_.stall_warning().count() == 0) return;
  if (!calls_.point_to_point_.is_full(transfer_.peer)) return;
  full_said_ = true;
  log_warn("{} waits: {} messages to {} wait for receives that it has not called, and no more are announced to it",
           describe(), PointToPoint::kMostUnmatched, context_.control().describe(transfer_.peer));
}

bool TransferOperation::peer_has_left() {
  const int peer = transfer_.peer == kAnySource ? last_to_leave() : transfer_.peer;
  if (peer == context_.rank() || context_.health().left_after(peer) == Health::kStillHere) return false;
  const auto has_all = [this](int rank) {
    return std::ranges::all_of(context_.transports(),
                               [rank](Transport* transport) { return transport->has_all(rank); });
  };
  if (transfer_.peer != kAnySource) return has_all(peer);
  for (int r = 0; r < context_.ranks(); ++r) {
    if (r != context_.rank() && !has_all(r)) return false;
  }
  return true;
}

void TransferOperation::fail_for_leaver() {
  const int peer = transfer_.peer == kAnySource ? last_to_leave() : transfer_.peer;
  context_.health().fail(ErrorCode::kRemote,
                         fmt::format("{} has left and will not {} this message", context_.control().describe(peer),
                                     sending_ ? "receive" : "send"),
                         peer, Health::Reach::kThisRank);
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
    const std::string reason = fmt::format(
        "{} sends {}×{} where {} receives {}×{} (tag {}): the type must be the same, and the buffer of the "
        "receive at least as long",
        control.describe(transfer_.peer), tutti::name(mismatch->type), mismatch->count,
        control.describe(context_.rank()), tutti::name(transfer_.type), transfer_.count, transfer_.tag);
    if (health.fail(ErrorCode::kMismatch, reason)) {
      control.poison(ErrorCode::kMismatch, reason, Error::kNoPeer);
    }
  }
  return end_with(failure(), Phase::kFailed);
}

Progress TransferOperation::end_with(Error error, Phase phase) {
  OperationLog::end(std::exchange(entry_, nullptr), phase, true);
  return fail(std::move(error));
}

std::string TransferOperation::describe() const {
  if (transfer_.probes) {
    return fmt::format("probe from {} tag {} of \"{}\"",
                       transfer_.peer == kAnySource ? "any" : std::to_string(transfer_.peer), transfer_.tag,
                       context_.name());
  }
  return fmt::format("{} {}×{} {} {} tag {} of \"{}\"", sending_ ? "send" : "recv", tutti::name(transfer_.type),
                     transfer_.count, sending_ ? "to" : "from",
                     transfer_.peer == kAnySource ? "any" : std::to_string(transfer_.peer), transfer_.tag,
                     context_.name());
}

}  // namespace tutti
