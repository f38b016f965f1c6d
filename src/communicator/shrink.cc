#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/arithmetic.h"
#include "base/log.h"
#include "communicator/durations.h"
#include "communicator/session.h"
#include "communicator/setup.h"
#include "executor/waiter.h"

// How the survivors of a communicator make a new one: they agree on who they are, meet, and agree again when that comes
// to nothing because somebody else died.
namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestMeeting(1000);
constexpr milliseconds kLongestMeeting = std::chrono::hours(24);  // that the setting can say

// A trouble of this rank's own: to try again would end in the same way.
bool is_own_trouble(ErrorCode code) {
  return code != ErrorCode::kRemote && code != ErrorCode::kTimeout && code != ErrorCode::kUnauthorized;
}

Config within(const Config& config, Deadline deadline) {
  const auto left =
      std::clamp(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()), kShortestMeeting, kLongestMeeting);
  return config.with({{"TUTTI_MEET_TIMEOUT", fmt::format("{:.3f}", static_cast<double>(left.count()) / 1000)}});
}

}  // namespace

bool Session::was_given_up() const {
  return health_->failed() && health_->reason().code() == ErrorCode::kRemote && health_->reason().peer() == rank();
}

// Calls of other threads and of streams learn of the failure when they look next. Until then they may be in the midst
// of a copy into a buffer of this rank, or of another one that has joined the survivors already.
void Session::end_failed_calls(Deadline deadline) {
  Waiter waiter(false);
  std::optional<std::uint64_t> turn;
  while (!context_.outstanding().none() || !(turn = collectives_.order().try_take())) {
    if (Clock::now() >= deadline) {
      throw Error(ErrorCode::kTimeout,
                  fmt::format("shrink of communicator \"{}\": calls of this rank that have failed do not end", name()));
    }
    waiter.pause();
  }
  try {
    collectives_.take_back_outputs();
  } catch (...) {
    collectives_.order().pass(*turn);
    throw;
  }
  collectives_.order().pass(*turn);
}

std::unique_ptr<Session> Session::shrink(milliseconds patience) {
  check_duration(patience, "the patience of shrink()", "0 takes those who have called it already");
  const DefaultArithmetic arithmetic;
  context_.check_usable("shrink");
  Options options = options_;
  options.name = name();
  const Deadline deadline = deadline_after(patience);
  if (ranks() == 1) return open_session({}, config_, options);

  bool ended = health_->failed();
  if (ended) end_failed_calls(deadline);
  const std::unique_ptr<SurvivorCall> call = control_->call_survivors(config_, deadline);
  std::unique_ptr<Session> session;
  while (true) {
    const std::optional<Membership> membership = call->agree();
    if (!membership) return session;
    session.reset();
    if (membership->ranks == 1 && was_given_up()) {
      // It found nobody because the others gave it up, not because it alone lives.
      throw Error(ErrorCode::kRemote,
                  fmt::format("shrink of communicator \"{}\": the others went on without {}: {}", name(),
                              control_->describe(rank()), health_->reason().what()),
                  rank());
    }
    try {
      session = open_session(*membership, within(config_, deadline), options);
      if (!ended && health_->failed()) {
        end_failed_calls(deadline);
        ended = true;
      }
      if (call->opened()) return session;
      if (Clock::now() >= deadline) {
        throw Error(ErrorCode::kTimeout,
                    fmt::format("shrink of communicator \"{}\": the survivors were not ready in time", name()));
      }
    } catch (const Error& error) {
      if (is_own_trouble(error.code()) || Clock::now() >= deadline) throw;
      log_info("communicator \"{}\" rank {}: the survivors agree again: {}", name(), rank(), error.what());
    }
  }
}

}  // namespace tutti
