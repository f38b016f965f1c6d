#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "communicator/session.h"
#include "executor/waiter.h"
#include "transport/messages.h"

// What a Session does for a collective: it executes it in its turn, and finds out why one does not end.
namespace tutti {
namespace {

constexpr std::chrono::microseconds kCheckInterval{1000};
constexpr std::chrono::microseconds kCheckIntervalPerRank{50};
constexpr std::chrono::seconds kCompareAfter{1};
constexpr std::chrono::seconds kVerdictWait{5};

CallDescription describe_call(const CallShape& shape, std::uint64_t sequence) {
  CallDescription description;
  description.sequence = sequence;
  description.signature = signature_of(shape, sequence);
  const std::string text = describe(shape);
  std::memcpy(description.text, text.data(), std::min(text.size(), sizeof(description.text) - 1));
  return description;
}

}  // namespace

void Session::answer_comparisons() {
  control_->set_describe_call([log = log_.get()](std::uint64_t sequence, CallDescription& out) {
    CallShape shape;
    if (!log->find(sequence, shape)) return false;
    out = describe_call(shape, sequence);
    return true;
  });
}

void Session::run(const CollectiveArguments& arguments) {
  const bool in_place = check_arguments(arguments, rank(), ranks(), name_);
  const CallShape shape = shape_of(arguments);
  const TurnOrder::Turn turn(order_, *health_, spin_);
  check_open(tutti::name(arguments.collective));
  const std::uint64_t sequence = ++sequence_;
  if (health_->failed()) fail_call(shape, sequence);
  log_->record(sequence, shape);

  const std::size_t element_bytes = element_size(arguments.type);
  const std::size_t bytes = size_of(arguments, ranks());
  const Choice& choice = selector_->choose(arguments.collective, bytes);
  Call call;
  call.reduction = {arguments.type, arguments.op, ranks(), false, reproducible_};
  call.input = static_cast<const std::byte*>(arguments.input);
  call.output = static_cast<std::byte*>(arguments.output);
  call.element_bytes = element_bytes;
  call.sequence = sequence;
  call.signature = signature_of(shape, sequence);
  if (arguments.blocks != nullptr) call.blocks = &arguments.blocks->table();
  call.counts_signed = arguments.collective == Collective::kAllToAllV;
  call.root = arguments.root;
  call.channels = choice.channels;
  call.in_place = in_place;
  try {
    execute(call, shape, choice);
  } catch (const std::bad_alloc&) {
    fail_locally(out_of_memory());
    executor_->withdraw();
    fail_call(shape, sequence);
  }
  count_call(counters_[static_cast<std::size_t>(arguments.collective)], bytes);
}

void Session::execute(Call& call, const CallShape& shape, const Choice& choice) {
  call.plan = &plan_for(choice);
  try {
    executor_->start(call, shape.count, choice.chunk_bytes);
  } catch (const Error& error) {
    fail_locally(error);
    fail_call(shape, call.sequence);
  }
  if (executor_->progress(call) != Progress::kDone) drive(call, shape);
}

void Session::drive(Call& call, const CallShape& shape) {
  Waiter waiter(transports_, spin_);
  // The checks look at every rank: the more there are, the less often.
  const auto check_interval = kCheckInterval + kCheckIntervalPerRank * ranks();
  Clock::duration next_check = check_interval;
  bool compared = false;
  while (true) {
    switch (executor_->progress(call)) {
      case Progress::kDone:
        return;
      case Progress::kFailed:
        if (const auto& mismatch = executor_->mismatch(); !health_->failed() && mismatch.peer >= 0) {
          if (!report_counts(call, shape, mismatch.signature, mismatch.peer)) {
            report_mismatch(shape, call.sequence, mismatch.signature, mismatch.peer);
          }
        }
        executor_->withdraw();
        fail_call(shape, call.sequence);
      case Progress::kAgain:
        break;
    }
    const bool advanced = executor_->advanced();
    if (progress_transports() || advanced) {
      waiter.reset();
      next_check = check_interval;
    } else if (waiter.pause() && waiter.waited() >= next_check) {
      check_wait(call, shape, waiter.waited(), compared);
      next_check = waiter.waited() + check_interval;
    }
  }
}

void Session::check_wait(Call& call, const CallShape& shape, Clock::duration waited, bool& compared) {
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank() || health_->left_after(peer) >= call.sequence) continue;
    // What it sent before it left may only just have arrived.
    progress_transports();
    if (executor_->progress(call) != Progress::kAgain) return;
    health_->fail(ErrorCode::kRemote,
                  fmt::format("{} left after call #{}, and this call needs it: all ranks must make the same calls",
                              control_->describe(peer), health_->left_after(peer)),
                  peer);
    return;
  }
  check_unexpected_messages(shape, call.sequence, &call);
  if (!compared && waited > kCompareAfter) {
    control_->compare_call(describe_call(shape, call.sequence));
    compared = true;
  }
}

// Ranks that disagree on a call may each wait for somebody who never writes to them. But whoever does write can be
// seen.
void Session::check_unexpected_messages(const CallShape& shape, std::uint64_t sequence, const Call* call) {
  for (const auto& channel : channels_) {
    for (const Endpoint& endpoint : channel->endpoints()) {
      if (endpoint.in == nullptr) continue;
      const Line* line = arrived(endpoint);
      if (line == nullptr || (call != nullptr && line->signature == call->signature_from(endpoint.peer))) continue;
      if (sequence_near(line->signature, sequence) > sequence) continue;
      if (call != nullptr && report_counts(*call, shape, line->signature, endpoint.peer)) return;
      report_mismatch(shape, sequence, line->signature, endpoint.peer);
      return;
    }
  }
}

// Nobody but the two ranks of a pair knows its count: there is nothing to compare over the control plane.
bool Session::report_counts(const Call& call, const CallShape& shape, std::uint64_t other_signature, int peer) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;  // beyond, it was no count but another call's hash
  if (!call.counts_signed || sequence_near(other_signature, call.sequence) != call.sequence) return false;
  const std::uint64_t said = count_in(other_signature, call.signature);
  if (said > kMostBytes / call.element_bytes) return false;
  const std::string reason = fmt::format(
      "{} sends {} elements to {} in #{} {}, which expects {}: input_counts[{}] there must be output_counts[{}] here",
      control_->describe(peer), said, control_->describe(rank()), call.sequence, describe(shape),
      call.blocks->output.counts[peer], rank(), peer);
  if (health_->fail(ErrorCode::kMismatch, reason, peer)) control_->poison(ErrorCode::kMismatch, reason, peer);
  return true;
}

void Session::report_mismatch(const CallShape& shape, std::uint64_t sequence, std::uint64_t other_signature, int peer) {
  // The message may be left over from an earlier call in which nobody here waited for it.
  CallShape suspect = shape;
  std::uint64_t suspect_sequence = std::min(sequence_near(other_signature, sequence), sequence);
  if (suspect_sequence == sequence || !log_->find(suspect_sequence, suspect)) {
    suspect_sequence = sequence;
    suspect = shape;
  }
  control_->compare_call(describe_call(suspect, suspect_sequence));
  const Clock::time_point asked = Clock::now();
  const Deadline deadline = asked + kVerdictWait;
  Waiter waiter({}, false);
  while (!health_->failed() && Clock::now() < deadline) {
    if (health_->left_after(peer) != Health::kStillHere && Clock::now() > asked + kLastWords) break;
    waiter.pause();
  }
  const std::string reason = fmt::format(
      "{} sent a message of another call than #{} {}: all ranks must make the same calls with the same "
      "count, type, operation and root",
      control_->describe(peer), suspect_sequence, describe(suspect));
  if (health_->fail(ErrorCode::kMismatch, reason, peer)) control_->poison(ErrorCode::kMismatch, reason, peer);
}

// Where a call had nothing to wait for (two ranks that each believe they are the root), a message of it may still lie
// here.
void Session::check_left_overs() {
  CallShape last;
  if (sequence_ == 0 || !log_->find(sequence_, last)) return;
  progress_transports();
  check_unexpected_messages(last, sequence_, nullptr);
}

void Session::fail_call(const CallShape& shape, std::uint64_t sequence) {
  note(told_, 1);
  const Error reason = health_->reason();
  throw Error(reason.code(),
              fmt::format("{} #{} of \"{}\" on rank {}: {}", describe(shape), sequence, name_, rank(), reason.what()),
              reason.peer());
}

}  // namespace tutti
