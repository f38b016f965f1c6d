#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "bootstrap/process.h"

namespace tutti {

// Says in a line what a rank waits for on its way to a communicator, as soon and as often as a stalled call would
// (waiting_times.h). The control thread writes it: so it comes whatever the thread that waits hangs in, be it a name
// server. Made and destroyed by any other thread.
class MeetingWatch {
  struct State;

 public:
  // who: "communicator \"world\": rank 3". warning: 0: no lines. origin: where the rank's number comes from, if the
  // program does not say it itself: lines end with that.
  MeetingWatch(std::shared_ptr<Process> process, std::string who, std::chrono::milliseconds warning,
               std::string origin = "");
  ~MeetingWatch();
  MeetingWatch(const MeetingWatch&) = delete;
  MeetingWatch& operator=(const MeetingWatch&) = delete;

  // What it waits for from now on: "for the root at …". Never waits.
  void waits(std::string what);

  // From now on somebody who knows more is asked before each line, and what it does not answer is said with waits().
  // `ask` runs on the control thread, as long as this watch is there.
  void ask_through(std::function<void()> ask);
  // Takes the answers: "for rank 3 (3 of 4 here)". On the control thread; does nothing once the watch is gone.
  std::function<void(std::string answer)> listener() const;

 private:
  std::shared_ptr<Process> process_;  // shared with everybody who needs the control thread
  std::shared_ptr<State> state_;      // of the control thread; shared with what is posted to it
};

}  // namespace tutti
