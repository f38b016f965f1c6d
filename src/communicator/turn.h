#pragma once

#include <cstdint>
#include <optional>

#include "base/sync.h"
#include "transport/shm/sleepers.h"

namespace tutti {

class CallContext;

// The order of a communicator's collectives: each takes a number when it is issued, and runs when the number is called.
// Any thread.
class TurnOrder {
 public:
  // sleepers: wakes threads of this rank that wait for their turn. Outlives this.
  explicit TurnOrder(Sleepers& sleepers) : sleepers_(sleepers) {}

  // The next number, from 0.
  std::uint64_t take() { return take_number(next_); }
  // The same if that number is called at once, because all before have ended.
  std::optional<std::uint64_t> try_take() {
    const std::uint64_t number = observe(called_);  // published by pass()
    return claim(next_, number, number + 1) ? std::optional(number) : std::nullopt;
  }
  bool is_called(std::uint64_t number) const { return observe(called_) == number; }  // published by pass()
  // The holder of the number that is called has ended.
  void pass(std::uint64_t number) {
    publish(called_, number + 1);
    sleepers_.tell_own();
  }

  // From construction to destruction it is the caller's turn; the constructor blocks until it is. In a forked child it
  // throws when the turn is that of a thread of the parent.
  class Turn {
   public:
    Turn(TurnOrder& order, const CallContext& context);
    ~Turn() { order_.pass(number_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Also: how many collectives came before.
    std::uint64_t number() const { return number_; }

   private:
    TurnOrder& order_;
    const std::uint64_t number_;
  };

 private:
  Sleepers& sleepers_;
  Word next_{0};
  Word called_{0};
};

}  // namespace tutti
