#pragma once

#include <cstdint>

#include "base/health.h"
#include "base/sync.h"
#include "executor/waiter.h"

namespace tutti {

// The order of a communicator's collectives: each takes a number when it is issued and waits until it is called. Any
// thread.
class TurnOrder {
 public:
  // From construction to destruction it is the caller's turn; the constructor blocks until it is. In a forked child it
  // throws when the turn is that of a thread of the parent.
  class Turn {
   public:
    Turn(TurnOrder& order, const Health& health, bool spin) : order_(order) {
      const std::uint64_t mine = take_number(order_.next_);
      Waiter waiter({}, spin);
      while (observe(order_.called_) != mine) {  // published by the destructor of the turn before
        if (health.used_after_fork()) throw health.reason();
        waiter.pause();
      }
    }
    ~Turn() { publish(order_.called_, peek(order_.called_) + 1); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    TurnOrder& order_;
  };

 private:
  Word next_{0};
  Word called_{0};
};

}  // namespace tutti
