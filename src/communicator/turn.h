#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/sync.h"
#include "transport/shm/sleepers.h"

namespace tutti {

class CallContext;

// The order of a communicator's collectives: each takes a number when it is issued, and runs when the number is called.
// A call that ends without its turn gives its number up, and the order passes over it. Any thread.
class TurnOrder {
 public:
  // sleepers: wakes threads of this rank that wait for their turn. Outlives this.
  explicit TurnOrder(Sleepers& sleepers) : sleepers_(sleepers) { given_up_.reserve(kExpectedGivenUp); }

  // The next number, from 0.
  std::uint64_t take() { return take_number(next_); }
  // The same if that number is called at once, because all before have ended.
  std::optional<std::uint64_t> try_take() {
    if (peek(gaps_) != 0) pass_over();
    const std::uint64_t number = observe(called_);  // published by pass()
    return claim(next_, number, number + 1) ? std::optional(number) : std::nullopt;
  }
  bool is_called(std::uint64_t number) const { return observe(called_) == number; }  // published by pass()
  // The holder of the number that is called has ended.
  void pass(std::uint64_t number) {
    publish(called_, number + 1);
    sleepers_.tell_own();
  }

  // The same for those who wait: the numbers before it that were given up are passed over. Costs more only where there
  // are any.
  bool has_come(std::uint64_t number) {
    if (is_called(number)) return true;
    if (peek(gaps_) == 0) return false;
    pass_over();
    return is_called(number);
  }
  // The holder ends without its turn. False: the number is called already and must be passed, or there is no memory.
  bool give_up(std::uint64_t number) noexcept;

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
  static constexpr std::size_t kExpectedGivenUp = 64;  // giving up takes no memory until there are more

  void pass_over();

  Sleepers& sleepers_;
  Word next_{0};
  Word called_{0};
  // A number that was given up is passed by whoever waits for a later one. Nobody else passes it, so holders of other
  // numbers need not look: passing costs no more than a store.
  Word gaps_{0};                         // how many there are; changed under mutex_
  std::mutex mutex_;                     // guards the next
  std::vector<std::uint64_t> given_up_;  // in no order
};

}  // namespace tutti
