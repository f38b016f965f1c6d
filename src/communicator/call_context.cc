#include "communicator/call_context.h"

#include <fmt/format.h>

namespace tutti {

Error CallContext::closed_error(std::string_view call) const {
  return {ErrorCode::kInvalidArgument, fmt::format("{} on \"{}\": it was destroyed", call, name())};
}

void CallContext::check_usable(std::string_view call) {
  if (health().used_after_fork()) throw failure_of(fmt::format("{} on \"{}\"", call, name()));
  if (closed()) throw closed_error(call);
}

Error CallContext::failure_of(const std::string& call) {
  note(told_, 1);
  report().write_failure();
  const Error reason = health().reason();
  // A call that has run into its limit is named in the reason already.
  if (std::string_view(reason.what()).starts_with(call + " on ")) return reason;
  return {reason.code(), fmt::format("{} on rank {}: {}", call, rank(), reason.what()), reason.peer()};
}

bool CallContext::progress_transports() const {
  bool moved = false;
  for (Transport* transport : transports()) moved |= transport->progress();
  return moved;
}

bool CallContext::flush_transports() const {
  bool flushed = true;
  for (Transport* transport : transports()) flushed &= transport->flush();
  return flushed;
}

void CallContext::fail_locally(const Error& error) const {
  health().fail(error.code(), error.what(), rank(), Health::Reach::kThisRank);
  control().poison(ErrorCode::kRemote, fmt::format("{}: {}", control().describe(rank()), error.what()), rank());
}

Error CallContext::out_of_memory() {
  return {ErrorCode::kSystem, "the process is out of memory: free some, or raise its limit"};
}

void CallContext::abort(const std::string& reason) const {
  const std::string why = reason.empty() ? "" : ": " + reason;
  health().fail(ErrorCode::kAborted, fmt::format("this rank called abort(){}", why), rank(), Health::Reach::kThisRank);
  control().poison(ErrorCode::kRemote, fmt::format("{} aborted{}", control().describe(rank()), why), rank());
}

}  // namespace tutti
