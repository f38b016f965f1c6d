#include "communicator/operation.h"

#include <algorithm>
#include <new>

#include "executor/waiter.h"

namespace tutti {

void Operation::look_around(Clock::time_point now) noexcept {
  try {
    look(now);
  } catch (const std::bad_alloc&) {
    context_.fail_locally(CallContext::out_of_memory());
  }
}

void Operation::look(Clock::time_point now) {
  if (issued_ == Clock::time_point{}) issued_ = now;  // of a blocking call, which does not ask for the time
  if (idle_since_ == Clock::time_point{}) {
    idle_since_ = now;
    next_check_ = check_interval();
  }
  const auto allowed = limit();
  const Clock::time_point end = allowed.count() > 0 ? deadline_after(allowed, issued_) : Clock::time_point::max();
  if (now > end && now > next_complaint_ && !is_doomed()) {
    timed_out_ = true;
    next_complaint_ = now + StallWatch::kAnswerTime;
    context_.stalls().time_out(this, describe(), allowed);
  }
  due_ = std::max(end, next_complaint_);
  const Clock::duration idle = now - idle_since_;
  if (!running_) return;
  watch(idle);
  context_.stalls().look(stall_, now);
  if (idle < next_check_) return;
  check(idle);
  next_check_ = idle + check_interval();
}

Error Operation::failure() const {
  try {
    return context_.failure_of(describe());
  } catch (const std::bad_alloc&) {
    return CallContext::out_of_memory();
  }
}

void drive(Operation& operation, Progress progress) {
  const CallContext& context = operation.context();
  constexpr std::uint32_t kTurnsPerLook = 4096;  // also when something always moves
  Waiter waiter(context.places_to_sleep(), context.transports(), context.spin());
  std::uint32_t turns = 0;
  for (; progress == Progress::kAgain; progress = operation.progress()) {
    const bool moved = operation.running() && context.progress_transports();
    if (moved || operation.advanced()) {
      operation.note_moved();
      if (operation.advanced()) operation.note_advanced();
      waiter.reset();
      if (moved) context.sleepers().tell_own();  // it may be for another thread
      if (++turns % kTurnsPerLook == 0) operation.look_around(Clock::now());
    } else if (waiter.pause()) {
      operation.look_around(Clock::now());
      waiter.wake_by(operation.due());
    }
  }
  if (progress == Progress::kFailed) throw operation.error();
}

}  // namespace tutti
