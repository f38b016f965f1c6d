#include "communicator/stream_engine.h"

#include <algorithm>
#include <utility>

#include "base/threads.h"
#include "communicator/callback_scope.h"

namespace tutti::detail {
namespace {

// How long the thread looks itself whether somebody still helps: whoever waits for one Work after the other need not
// wake it between two of them. Each nap is as long as all before; after the last the thread sleeps until it is woken.
constexpr std::chrono::nanoseconds kShortestNap = std::chrono::microseconds(50);
constexpr std::chrono::nanoseconds kLongestNap = std::chrono::microseconds(800);

}  // namespace

// From construction to destruction somebody helps, and the thread keeps out of the way.
class StreamEngine::Helping {
 public:
  explicit Helping(StreamEngine& engine) : engine_(engine) {
    const std::lock_guard lock(engine_.mutex_);
    add(engine_.helpers_, 1);
    spin_ = engine_.spin_;
    engine_.wake_driver();
  }
  ~Helping() {
    const std::lock_guard lock(engine_.mutex_);
    note(engine_.helpers_, peek(engine_.helpers_) - 1);
    if (engine_.needed() && engine_.state_ == State::kAsleep) engine_.wake();
  }
  Helping(const Helping&) = delete;
  Helping& operator=(const Helping&) = delete;

  bool spin() const { return spin_; }

 private:
  StreamEngine& engine_;
  bool spin_ = false;
};

StreamEngine::~StreamEngine() {
  // A stream that was closed in a callback: this may be its thread, or nobody waits for it.
  if (thread_.joinable()) thread_.detach();
}

void StreamEngine::issue(Batch& collectives, Batch& transfers, const std::shared_ptr<WorkState>& work,
                         WorkState* group) {
  check_process();
  const std::lock_guard lock(mutex_);
  start_thread();
  // All that takes memory comes before the first number is taken: whoever has one must be carried on.
  issued_.reserve(issued_.size() + 1);
  pending_.insert(work);
  try {
    issue_calls(collectives, transfers, group);
  } catch (...) {
    pending_.erase(work);
    throw;
  }
  for (const Batch* batch : {&collectives, &transfers}) {
    for (const PendingCall& call : *batch) spin_ = spin_ && call.operation->context().spin();
  }
  const bool nothing_else = peek(unsettled_) == 0;
  const bool posts = !transfers.empty();
  issued_.emplace_back(std::move(collectives), std::move(transfers));
  note(issues_, peek(issues_) + 1);
  note(unsettled_, peek(unsettled_) + 1);
  if (!nothing_else && !posts) return;
  wake_driver();
  if (peek(helpers_) == 0) wake();
}

void StreamEngine::expect_callbacks() {
  check_process();
  const std::lock_guard lock(mutex_);
  callbacks_.start([self = shared_from_this()](const std::shared_ptr<WorkState>& work) {
    work->settle();
    self->forget(work);
  });
}

void StreamEngine::wake() {
  if (state_ == State::kAwake || rung_ || !bell_) return;
  rung_ = true;
  bell_->ring();
}

void StreamEngine::wake_driver() {
  if (napping_ != nullptr) napping_->wake_own();
}

void StreamEngine::start_thread() {
  if (thread_.joinable()) return;
  if (!bell_) bell_.emplace();
  thread_ = tutti::start_thread("tutti-stream", "for a stream, of which each has one",
                                [self = shared_from_this()] { self->run_thread(); });
}

void StreamEngine::check_process() const {
  if (peek(forked_) == 0) return;
  throw Error(ErrorCode::kUnsupported,
              "used after fork: this stream belongs to the parent process; create a new one in the child");
}

void StreamEngine::run_thread() {
  Waiter waiter(false);  // the cores are for whoever computes
  while (sleep_until_needed()) {
    driving_.lock();
    waiter.reset();
    while (needed()) {
      const bool moved = turn(waiter);
      if (!rotation_.ended().empty()) break;
      if (moved || !nap(waiter, false)) continue;
      rotation_.look_around(waiter);
      waiter.wake_by(rotation_.due());
    }
    waiter.reset();
    settle(release());
  }
}

bool StreamEngine::sleep_until_needed() {
  std::unique_lock lock(mutex_);
  auto nap = kShortestNap;
  while (!needed()) {
    if (closed_ && pending_.empty()) return false;
    const bool naps = peek(unsettled_) > 0 && nap <= kLongestNap;
    state_ = naps ? State::kNapping : State::kAsleep;
    lock.unlock();
    if (naps) {
      bell_->sleep(nap);
      nap *= 2;
    } else {
      bell_->sleep();
    }
    lock.lock();
    state_ = State::kAwake;
    bell_->silence();
    rung_ = false;
  }
  return true;
}

bool StreamEngine::nap(Waiter& waiter, bool helping) {
  if (!waiter.may_sleep()) return waiter.pause();
  {
    const std::lock_guard lock(mutex_);
    if (peek(issues_) != taken_ || (!helping && !needed())) return false;
    napping_ = rotation_.sleepers().empty() ? nullptr : rotation_.sleepers().front();
  }
  const bool look = waiter.pause();
  const std::lock_guard lock(mutex_);
  napping_ = nullptr;
  return look;
}

bool StreamEngine::turn(Waiter& waiter) {
  if (peek(issues_) != taken_) {
    std::vector<std::pair<Batch, Batch>> issued;
    {
      const std::lock_guard lock(mutex_);
      issued.swap(issued_);
      taken_ = peek(issues_);
    }
    for (auto& [collectives, transfers] : issued) rotation_.add(std::move(collectives), std::move(transfers));
  }
  const bool moved = rotation_.round(waiter);
  if (++turns_ % Rotation::kRoundsPerLook == 0) rotation_.look_around(waiter);
  return moved;
}

StreamEngine::Works StreamEngine::release() {
  Works ended;
  ended.swap(rotation_.ended());
  if (!ended.empty()) {
    const auto issues = std::ranges::count_if(ended, [](const auto& work) { return work->group() == nullptr; });
    const std::lock_guard lock(mutex_);
    note(unsettled_, peek(unsettled_) - static_cast<std::uint64_t>(issues));
  }
  driving_.unlock();
  return ended;
}

void StreamEngine::settle(const Works& ended) {
  for (const auto& work : ended) {
    if (work->calls_back()) {
      callbacks_.push(work);
    } else {
      forget(work);
    }
  }
}

void StreamEngine::forget(const std::shared_ptr<WorkState>& work) {
  const auto error = work->error();
  const std::lock_guard lock(mutex_);
  if (error && !first_error_) first_error_ = error;
  pending_.erase(work);
  if (!closed_ || !pending_.empty()) return;
  wake();
  callbacks_.finish();
}

bool StreamEngine::help(const WorkState& work, std::optional<Deadline> deadline) {
  check_process();
  const auto over = [&] { return deadline && Clock::now() >= *deadline; };
  {
    Helping helping(*this);
    Waiter waiter(helping.spin());
    if (deadline) waiter.wake_by(*deadline);
    while (!work.has_ended()) {
      if (over()) return false;
      if (!driving_.try_lock()) {
        waiter.listen_to({}, {});  // those are for whoever has the lock
        waiter.pause();
        continue;
      }
      while (!work.has_ended() && !over()) {
        const bool moved = turn(waiter);
        if (!rotation_.ended().empty()) break;
        if (moved || !nap(waiter, true)) continue;
        rotation_.look_around(waiter);
        waiter.wake_by(std::min(rotation_.due(), deadline.value_or(Clock::time_point::max())));
      }
      waiter.reset();
      settle(release());
    }
  }
  // What is left are callbacks, which another thread runs. Meanwhile the calls are the stream's thread's again.
  Waiter waiter(false);
  if (deadline) waiter.wake_by(*deadline);
  while (!work.done()) {
    if (over()) return false;
    waiter.pause();
  }
  return true;
}

void StreamEngine::wait_for_all() {
  Works pending;
  {
    const std::lock_guard lock(mutex_);
    pending.assign(pending_.begin(), pending_.end());
  }
  for (const auto& work : pending) {
    help(*work, std::nullopt);
    // Whoever ended it may not have noted its error yet.
    Waiter waiter(false);
    while (is_pending(work)) waiter.pause();
  }
}

bool StreamEngine::is_pending(const std::shared_ptr<WorkState>& work) {
  const std::lock_guard lock(mutex_);
  return pending_.contains(work);
}

void StreamEngine::synchronize() {
  check_process();
  if (CallbackScope::is_inside(*this)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a callback of a stream's call synchronizes the stream, which goes on when the callback has returned");
  }
  wait_for_all();
  const std::lock_guard lock(mutex_);
  if (const auto error = std::exchange(first_error_, std::nullopt)) throw Error(*error);
}

void StreamEngine::close() {
  if (peek(forked_) != 0) {
    if (thread_.joinable()) thread_.detach();
    return callbacks_.detach();
  }
  const bool inside = CallbackScope::is_inside(*this);
  // Callbacks may issue more.
  const auto busy = [this] {
    const std::lock_guard lock(mutex_);
    return !pending_.empty();
  };
  while (!inside && busy()) wait_for_all();
  std::unique_lock lock(mutex_);
  closed_ = true;
  wake();
  if (pending_.empty()) callbacks_.finish();
  lock.unlock();
  if (inside) {
    if (thread_.joinable()) thread_.detach();
    return callbacks_.detach();
  }
  if (thread_.joinable()) thread_.join();
  callbacks_.join();
}

}  // namespace tutti::detail
