#include "communicator/work_state.h"

#include <utility>

#include "communicator/callback.h"
#include "communicator/callback_scope.h"
#include "communicator/stream_engine.h"
#include "executor/waiter.h"

namespace tutti::detail {

WorkState::WorkState(std::shared_ptr<StreamEngine> engine, std::shared_ptr<WorkState> group)
    : engine_(std::move(engine)), group_(std::move(group)) {}
WorkState::~WorkState() = default;

void WorkState::issue(std::size_t calls, std::uint64_t sequence, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  calls_ = calls;
  sequence_ = sequence;
  issued_ = now;
  publish(stage_, kIssued);  // observed by wait()
}

void WorkState::start(Clock::time_point now) {
  {
    const std::lock_guard lock(mutex_);
    if (started_ == Clock::time_point{}) started_ = now;
  }
  if (group_ != nullptr) group_->start(now);
}

bool WorkState::end_call(const std::optional<Error>& error, int source, std::size_t count, Clock::time_point now,
                         bool others_first) {
  const std::lock_guard lock(mutex_);
  if (error && !error_) error_ = error;
  others_first_ |= others_first;
  if (--calls_ > 0) return false;
  source_ = source;
  count_ = count;
  ended_ = now;
  publish(stage_, callbacks_.empty() && !others_first_ ? kDone : kSettling);  // observed by done()
  return true;
}

void WorkState::settle() {
  while (true) {
    std::vector<Work::Callback> callbacks;
    {
      const std::lock_guard lock(mutex_);
      if (peek(stage_) == kDone) return;
      callbacks.swap(callbacks_);
      if (callbacks.empty()) return publish(stage_, kDone);  // observed by done()
    }
    for (Work::Callback& callback : callbacks) call_back(std::move(callback));
  }
}

void WorkState::end_without_calls(const std::optional<Error>& error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
    publish(stage_, kSettling);  // observed by done()
  }
  settle();
}

// The callback goes inside the scope: what it owns may be the stream, or a communicator.
void WorkState::call_back(Work::Callback callback) {
  const CallbackScope scope(*this, engine_.get());
  const std::optional<Error> thrown = run_callback(std::move(callback), work());
  if (!thrown) return;
  note_error(*thrown);
  if (group_ != nullptr) group_->note_error(*thrown);
}

void WorkState::note_error(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = error;
}

Work WorkState::work() {
  Work work;
  work.state_ = shared_from_this();
  return work;
}

bool WorkState::done() const {
  const std::uint64_t stage = observe(stage_);  // published by end_call() and settle()
  return stage == kDone || (stage == kSettling && CallbackScope::is_inside(*this));
}

bool WorkState::wait(std::optional<Deadline> deadline) {
  if (!done()) {
    check_may_wait();
    if (engine_ != nullptr) {
      if (!engine_->help(*this, deadline)) return false;
    } else {
      // Whoever ends the group carries it on.
      Waiter waiter(false);
      while (!done()) {
        if (deadline && Clock::now() >= *deadline) return false;
        waiter.pause();
      }
    }
  }
  if (const auto error = this->error()) throw Error(*error);
  return true;
}

void WorkState::check_may_wait() const {
  if (observe(stage_) == kRecorded) {
    throw Error(ErrorCode::kInvalidArgument, "this Work's call is in a group that has not been ended: end() it first");
  }
  if (engine_ != nullptr && CallbackScope::is_inside(*engine_)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a callback waits for a call of its own stream, which goes on when the callback has returned: chain "
                "the rest with then() instead");
  }
}

std::optional<Error> WorkState::error() const { return done() ? read(error_) : std::nullopt; }

void WorkState::then(Work::Callback callback) {
  if (engine_ != nullptr && !done()) engine_->expect_callbacks();
  {
    const std::lock_guard lock(mutex_);
    if (peek(stage_) != kDone) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  call_back(std::move(callback));
}

std::uint64_t WorkState::sequence() const { return read(sequence_); }
int WorkState::source() const { return read(source_); }
std::size_t WorkState::count() const { return read(count_); }
Clock::time_point WorkState::issued() const { return read(issued_); }
Clock::time_point WorkState::started() const { return read(started_); }
Clock::time_point WorkState::ended() const { return read(ended_); }

}  // namespace tutti::detail
