#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/clock.h"
#include "bootstrap/challenge.h"

namespace tutti {

// Where connections wait that have proven nothing yet: those of all listeners of one loop, which is all of a process.
// They may have a quarter of its descriptors. When others need one, or the room is full, whoever has waited longest
// goes; a rank that is hit tries again. Belongs to the loop's thread.
class WaitingRoom {
 public:
  static WaitingRoom& of_this_thread();

  // `begin` makes the challenge of the newcomer, who gets this number. `owner`: the listener; `on_sent_away`: for it,
  // right after the newcomer's descriptor has become free because somebody else needs it.
  void enter(const void* owner, const std::function<std::shared_ptr<Challenge>(std::uint64_t number)>& begin,
             std::function<void()> on_sent_away);
  // Its challenge is over.
  void leave(std::uint64_t number) { waiting_.erase(number); }
  // The listener ends.
  void leave_all(const void* owner);

  bool empty() const { return waiting_.empty(); }
  bool full() const;
  // Sends the oldest away if it had a moment to prove itself. False: nobody had, and what is left of it is short.
  bool make_room();
  // The same at once: this process needs a descriptor for itself. There may be none yet, if it was a listener's
  // reserve: then the next one has to go. False: nobody is there.
  bool clear_one();

 private:
  struct Guest {
    const void* owner;
    std::shared_ptr<Challenge> challenge;
    Clock::time_point since;
    std::function<void()> on_sent_away;
  };
  std::map<std::uint64_t, Guest> waiting_;  // by age
  std::uint64_t entered_ = 0;
};

}  // namespace tutti
