#include "communicator/collective_operation.h"

#include <fmt/format.h>

#include <new>

#include "executor/channel.h"

namespace tutti {
namespace {

constexpr std::chrono::microseconds kCheckInterval{1000};
constexpr std::chrono::microseconds kCheckIntervalPerRank{50};
constexpr std::chrono::seconds kCompareAfter{1};
// Looking at a clock costs too much for a short call that did not wait.
constexpr std::size_t kTimedBytes = std::size_t{1} << 20;
constexpr std::chrono::microseconds kShortestWait{20};  // less is no more than any exchange takes

}  // namespace

CollectiveOperation::CollectiveOperation(CollectiveCalls& calls, const CollectiveArguments& arguments, bool in_place,
                                         std::chrono::milliseconds limit)
    : Operation(calls.context_, limit),
      calls_(calls),
      shape_(shape_of(arguments)),
      bytes_(size_of(arguments, calls.context_.ranks())),
      blocks_(arguments.blocks) {
  call_.reduction = {arguments.type, arguments.op, context_.ranks(), false, calls.reproducible_};
  call_.input = static_cast<const std::byte*>(arguments.input);
  call_.output = static_cast<std::byte*>(arguments.output);
  call_.element_bytes = element_size(arguments.type);
  if (blocks_ != nullptr) call_.blocks = &blocks_->table();
  call_.counts_signed = arguments.collective == Collective::kAllToAllV;
  call_.root = arguments.root;
  call_.in_place = in_place;
}

CollectiveOperation::~CollectiveOperation() {
  if (!holds_turn_ || context_.health().used_after_fork()) return;
  try {
    context_.fail_locally(CallContext::out_of_memory());
  } catch (const std::bad_alloc&) {
    // Peers are told when this rank leaves.
  }
  if (running_) calls_.executor_->withdraw();
  OperationLog::end(call_.entry, running_ ? Phase::kFailed : Phase::kCancelled, true);
  if (running_ || !calls_.order_.give_up(turn_)) pass_turn();
}

void CollectiveOperation::take_over(std::uint64_t turn, const Call* begun) {
  turn_ = turn;
  holds_turn_ = true;
  if (begun != nullptr) {
    call_ = *begun;
    running_ = true;
  } else if (!calls_.order_.is_called(turn_)) {
    call_.entry = context_.log().enter_queued(shape_, sequence());
  }
}

Progress CollectiveOperation::progress() {
  if (!running_) {
    advanced_ = false;
    if (!calls_.order_.has_come(turn_)) return wait_for_turn();
    if (!begin()) return Progress::kFailed;
  }
  return carry_on();
}

// What its communicator has failed does not wait for the calls before it, which may take long to find out. In a forked
// child the turn may be that of a thread of the parent, which may also hold the locks.
Progress CollectiveOperation::wait_for_turn() {
  if (!is_doomed()) return Progress::kAgain;
  const bool in_child = context_.health().used_after_fork();
  if (!in_child && !calls_.order_.give_up(turn_)) return Progress::kAgain;
  holds_turn_ = false;
  if (in_child) return fail(failure());
  OperationLog::end(call_.entry, Phase::kCancelled, true);
  return fail(context_.health().failed() ? failure() : context_.closed_error(tutti::name(shape_.collective)));
}

bool CollectiveOperation::begin() {
  running_ = true;
  if (context_.closed()) {
    end_with(context_.closed_error(tutti::name(shape_.collective)));
    return false;
  }
  if (context_.health().failed()) {
    end_with_failure();
    return false;
  }
  OperationLog::begin(call_.entry);
  const Choice& choice = calls_.choose(shape_.collective, bytes_, call_.reduction.op, call_.reduction.type);
  call_.sequence = sequence();
  call_.shape = shape_;
  call_.signature = context_.log().sign(shape_, sequence());
  call_.channels = choice.channels;
  try {
    call_.plan = &calls_.plan_for(choice);
    calls_.executor_->start(call_, shape_.count, choice.chunk_bytes);
  } catch (const Error& error) {
    context_.fail_locally(error);
    end_with_failure();
    return false;
  } catch (const std::bad_alloc&) {
    context_.fail_locally(CallContext::out_of_memory());
    end_with_failure();
    return false;
  }
  return true;
}

Progress CollectiveOperation::carry_on() {
  if (dispute_) {
    advanced_ = false;
    return calls_.disagreements_.settled(*dispute_) ? end_with_failure() : Progress::kAgain;
  }
  switch (execute()) {
    case Progress::kDone:
      return end();
    case Progress::kAgain:
      advanced_ = calls_.executor_->advanced();
      return Progress::kAgain;
    case Progress::kFailed:
      break;
  }
  if (const auto& mismatch = calls_.executor_->mismatch(); !context_.health().failed() && mismatch.peer >= 0) {
    dispute_ = calls_.disagreements_.open(shape_, sequence(), &call_, mismatch.signature, mismatch.peer);
    advanced_ = false;
    return Progress::kAgain;  // until the dispute is settled
  }
  return end_with_failure();
}

Progress CollectiveOperation::execute() {
  try {
    return calls_.executor_->progress(call_);
  } catch (const std::bad_alloc&) {
    context_.fail_locally(CallContext::out_of_memory());
    return Progress::kFailed;
  }
}

void CollectiveOperation::watch(Clock::duration idle) {
  if (dispute_) return;
  const int late = calls_.arrivals_.find_late(sequence(), arrived_);
  wait_.note(late >= 0 ? late : calls_.executor_->first_awaited(call_), idle, late >= 0);
  OperationLog::wait(call_.entry, wait_.rank(), wait_.time());
}

// The checks look at every rank: the more there are, the less often.
Clock::duration CollectiveOperation::check_interval() const {
  return kCheckInterval + kCheckIntervalPerRank * context_.ranks();
}

namespace {

std::string when_left(std::uint64_t last_call) {
  return last_call == 0 ? "before its first call" : fmt::format("after call #{}", last_call);
}

}  // namespace

void CollectiveOperation::check(Clock::duration idle) {
  if (dispute_ || context_.health().failed()) return;
  for (int peer = 0; peer < context_.ranks(); ++peer) {
    if (peer == context_.rank()) continue;
    if (context_.health().left_after(peer) >= sequence()) {
      check_last_messages(peer, idle);
      continue;
    }
    // What it sent before it left may only just have arrived.
    context_.progress_transports();
    if (execute() != Progress::kAgain) return;
    context_.health().fail(
        ErrorCode::kRemote,
        fmt::format("{} left {}, and this call needs it: all ranks must make the same calls",
                    context_.control().describe(peer), when_left(context_.health().left_after(peer))),
        peer, Health::Reach::kThisRank);
    return;
  }
  dispute_ = calls_.disagreements_.find_unexpected(shape_, sequence(), &call_);
  if (!compared_ && idle > kCompareAfter) {
    calls_.disagreements_.compare(shape_, sequence());
    compared_ = true;
  }
}

// A rank that did its part of this call and left has handed its messages to its system, which goes on sending them.
// What has not come for long never will.
void CollectiveOperation::check_last_messages(int peer, Clock::duration idle) {
  if (context_.health().left_after(peer) == Health::kStillHere || idle < context_.silence()) return;
  if (calls_.executor_->first_awaited(call_) != peer) return;
  context_.health().fail(
      ErrorCode::kRemote,
      fmt::format(
          "{} did its part of this call and left, but its message has not come for {:.3g} s: the path between "
          "it and {} may swallow large packets. Compare the MTU of both ends and of what lies between (ip link)",
          context_.control().describe(peer), std::chrono::duration<double>(idle).count(),
          context_.control().describe(context_.rank())),
      peer);
}

Progress CollectiveOperation::end() {
  OperationLog::end(call_.entry, Phase::kDone, bytes_ >= kTimedBytes);
  if (wait_.rank() >= 0 && wait_.time() >= kShortestWait) calls_.arrivals_.count(wait_.rank(), wait_.time());
  if (call_.repeatable) calls_.short_calls_.keep(call_, bytes_);
  if (!is_split(shape_)) calls_.counters_[static_cast<std::size_t>(shape_.collective)].count_in_turn(bytes_);
  pass_turn();
  return Progress::kDone;
}

void CollectiveOperation::pass_turn() {
  holds_turn_ = false;
  calls_.order_.pass(turn_);
}

Progress CollectiveOperation::end_with(const Error& error) {
  OperationLog::end(call_.entry, call_.sequence == 0 ? Phase::kCancelled : Phase::kFailed, true);
  pass_turn();
  return fail(error);
}

Progress CollectiveOperation::end_with_failure() {
  calls_.executor_->withdraw();
  return end_with(failure());
}

std::string CollectiveOperation::describe() const {
  return fmt::format("{} #{} of \"{}\"", tutti::describe(shape_), sequence(), context_.name());
}

}  // namespace tutti
