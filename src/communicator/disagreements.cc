#include "communicator/disagreements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "communicator/arguments.h"
#include "executor/waiter.h"
#include "transport/messages.h"

namespace tutti {
namespace {

constexpr std::chrono::seconds kVerdictWait{5};
// A verdict that a rank gave before it left and its goodbye travel on different ways.
constexpr std::chrono::milliseconds kVerdictOfLeaver{200};

CallDescription describe_call(const CallShape& shape, std::uint64_t sequence) {
  CallDescription description;
  description.sequence = sequence;
  description.signature = signature_of(shape, sequence);
  const std::string whole = describe(shape);
  const std::string_view text = cut_text(whole, sizeof(description.text) - 1);
  std::memcpy(description.text, text.data(), text.size());
  return description;
}

}  // namespace

Disagreements::Disagreements(const CallContext& context, std::span<const std::unique_ptr<Channel>> channels,
                             OperationLog& log)
    : context_(context), channels_(channels), log_(log) {
  context.control().set_describe_call([&log](std::uint64_t sequence, CallDescription& out) {
    CallShape shape;
    if (!log.find(sequence, shape)) return false;
    out = describe_call(shape, sequence);
    return true;
  });
}

Disagreements::Dispute Disagreements::open(const CallShape& shape, std::uint64_t sequence, const Call* call,
                                           std::uint64_t other_signature, int peer) const {
  // The message may be left over from an earlier call in which nobody here waited for it.
  Dispute dispute{peer, std::min(sequence_near(other_signature, sequence), sequence), shape, Clock::now()};
  if (dispute.sequence == sequence || !log_.find(dispute.sequence, dispute.shape)) {
    dispute.sequence = sequence;
    dispute.shape = shape;
  }
  if (call == nullptr || !report_counts(*call, shape, other_signature, peer)) {
    compare(dispute.shape, dispute.sequence);
  }
  return dispute;
}

// Nobody but the two ranks of a pair knows its count: there is nothing to compare over the control plane.
bool Disagreements::report_counts(const Call& call, const CallShape& shape, std::uint64_t other_signature,
                                  int peer) const {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;  // beyond, it was no count but another call's hash
  if (!call.counts_signed || sequence_near(other_signature, call.sequence) != call.sequence) return false;
  const std::uint64_t said = count_in(other_signature, call.signature);
  if (said > kMostBytes / call.element_bytes) return false;
  ControlPlane& control = context_.control();
  const std::string reason = fmt::format(
      "{} sends {} elements to {} in #{} {}, which expects {}: input_counts[{}] there must be output_counts[{}] here",
      control.describe(peer), said, control.describe(context_.rank()), call.sequence, describe(shape),
      call.blocks->output.counts[peer], context_.rank(), peer);
  if (context_.health().fail(ErrorCode::kMismatch, reason)) {
    control.poison(ErrorCode::kMismatch, reason, Error::kNoPeer);
  }
  return true;
}

bool Disagreements::settled(const Dispute& dispute) const {
  Health& health = context_.health();
  if (health.failed()) return true;
  const Clock::time_point now = Clock::now();
  const bool left = health.left_after(dispute.peer) != Health::kStillHere;
  if (now < dispute.asked + kVerdictWait && !(left && now > dispute.asked + kVerdictOfLeaver)) return false;
  const std::string reason = fmt::format(
      "{} sent a message of another call than #{} {}: all ranks must make the same calls with the same "
      "count, type, operation and root",
      context_.control().describe(dispute.peer), dispute.sequence, describe(dispute.shape));
  if (health.fail(ErrorCode::kMismatch, reason)) {
    context_.control().poison(ErrorCode::kMismatch, reason, Error::kNoPeer);
  }
  return true;
}

std::optional<Disagreements::Dispute> Disagreements::find_unexpected(const CallShape& shape, std::uint64_t sequence,
                                                                     const Call* call) const {
  for (const auto& channel : channels_) {
    for (const Endpoint& endpoint : channel->endpoints()) {
      if (endpoint.in == nullptr) continue;
      const Line* line = arrived(endpoint);
      if (line == nullptr) continue;
      const std::uint64_t signature = read_once(line->signature);
      if (call != nullptr && signature == call->signature_from(endpoint.peer)) continue;
      if (sequence_near(signature, sequence) > sequence) continue;
      return open(shape, sequence, call, signature, endpoint.peer);
    }
  }
  return std::nullopt;
}

void Disagreements::check_left_overs(std::uint64_t last_call) const {
  CallShape last;
  if (last_call == 0 || !log_.find(last_call, last)) return;
  context_.progress_transports();
  const auto dispute = find_unexpected(last, last_call, nullptr);
  Waiter waiter(false);
  while (dispute && !settled(*dispute)) waiter.pause();
}

void Disagreements::compare(const CallShape& shape, std::uint64_t sequence) const {
  context_.control().compare_call(describe_call(shape, sequence));
}

}  // namespace tutti
