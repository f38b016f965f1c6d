#include "communicator/turn.h"

#include "communicator/stream_engine.h"
#include "executor/waiter.h"

namespace tutti {

TurnOrder::Turn::Turn(TurnOrder& order, const Health& health, bool spin) : order_(order), number_(order.take()) {
  Waiter waiter({}, spin);
  while (!order.is_called(number_)) {
    if (health.used_after_fork()) throw health.reason();
    detail::StreamEngine::help_callers();
    waiter.pause();
  }
}

}  // namespace tutti
