#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/dialer.h"
#include "bootstrap/event_loop.h"

namespace tutti {

// Ranks that die together with all their neighbours are missed by nobody. So after a death, once those that were cut
// off had time to find another place in the tree, its lowest rank tries to reach all that it is not connected to: where
// nobody listens any more, or another program does, again and again for a while, there was another death. Whoever
// leaves in an orderly way stays until its goodbye was read. Belongs to the tree and the loop's thread.
class RollCall {
 public:
  struct Self {
    std::chrono::milliseconds silence{0};  // after so long without an answer a rank is given up
    std::function<std::shared_ptr<Dialer>(int rank, Dialer::Done done)> dial;
    // Whom to look for, now; nobody where this is not for this rank to do.
    std::function<std::vector<int>()> missing;
    // Whether it should be there, and is not connected.
    std::function<bool(int rank)> is_missing;
    std::function<void(int rank, const std::string& trouble)> on_dead;
  };
  RollCall(EventLoop& loop, Self self);
  ~RollCall();

  // Somebody died.
  void begin_soon();
  // What came of trying to reach a rank in another way.
  void note(int rank, const Dialer::Outcome& outcome);
  void cancel();

 private:
  struct Trial {
    std::shared_ptr<Dialer> dialer;
    Clock::time_point since;  // it has not been reached
    bool gone = false;        // nobody listened, or somebody else
  };
  void begin();
  void dial_next();

  EventLoop& loop_;
  const Self self_;
  Timer next_;
  std::map<int, Trial> trials_;  // by rank: those that were not reached so far
  std::deque<int> waiting_;
  int dialing_ = 0;
};

}  // namespace tutti
