#include "tutti/work.h"

#include <utility>

#include "communicator/callback.h"
#include "communicator/durations.h"
#include "communicator/work_state.h"

namespace tutti {

bool Work::done() const { return state_ == nullptr || state_->done(); }

void Work::wait() const {
  if (state_ != nullptr) state_->wait(std::nullopt);
}

bool Work::wait(std::chrono::milliseconds limit) const {
  check_duration(limit, "the limit of Work::wait()", "0 only looks, and done() does that, too");
  return state_ == nullptr || state_->wait(deadline_after(limit));
}

std::optional<Error> Work::error() const { return state_ == nullptr ? std::nullopt : state_->error(); }

void Work::then(Callback callback) const {
  if (!callback) throw Error(ErrorCode::kInvalidArgument, "then() was given no function to call back");
  if (state_ != nullptr) return state_->then(std::move(callback));
  detail::run_callback(std::move(callback), *this);
}

std::uint64_t Work::sequence() const { return state_ == nullptr ? sequence_ : state_->sequence(); }
int Work::source() const { return state_ == nullptr ? source_ : state_->source(); }
std::size_t Work::count() const { return state_ == nullptr ? count_ : state_->count(); }
Work::Time Work::issued() const { return state_ == nullptr ? Time{} : state_->issued(); }
Work::Time Work::started() const { return state_ == nullptr ? Time{} : state_->started(); }
Work::Time Work::ended() const { return state_ == nullptr ? Time{} : state_->ended(); }

}  // namespace tutti
