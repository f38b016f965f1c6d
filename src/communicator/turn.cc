#include "communicator/turn.h"

#include <algorithm>
#include <new>

#include "communicator/call_context.h"
#include "executor/waiter.h"

namespace tutti {

bool TurnOrder::give_up(std::uint64_t number) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (is_called(number)) return false;
    try {
      given_up_.push_back(number);
    } catch (const std::bad_alloc&) {
      return false;
    }
    note(gaps_, given_up_.size());
  }
  sleepers_.tell_own();  // those who look next pass over it
  return true;
}

void TurnOrder::pass_over() {
  const std::lock_guard lock(mutex_);
  while (true) {
    const std::uint64_t called = observe(called_);
    const auto found = std::ranges::find(given_up_, called);
    if (found == given_up_.end()) break;
    *found = given_up_.back();
    given_up_.pop_back();
    note(gaps_, given_up_.size());
    pass(called);
  }
}

TurnOrder::Turn::Turn(TurnOrder& order, const CallContext& context) : order_(order), number_(order.take()) {
  Waiter waiter(context.places_to_sleep(), {}, context.spin());
  while (!order.has_come(number_)) {
    if (context.health().used_after_fork()) throw context.health().reason();
    waiter.pause();
  }
}

}  // namespace tutti
