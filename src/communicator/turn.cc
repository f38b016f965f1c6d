#include "communicator/turn.h"

#include "communicator/call_context.h"
#include "communicator/stream_engine.h"
#include "executor/waiter.h"

namespace tutti {

TurnOrder::Turn::Turn(TurnOrder& order, const CallContext& context) : order_(order), number_(order.take()) {
  Waiter waiter(context.places_to_sleep(), {}, context.spin());
  while (!order.is_called(number_)) {
    if (context.health().used_after_fork()) throw context.health().reason();
    detail::StreamEngine::help_callers();
    waiter.pause();
  }
}

}  // namespace tutti
