#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "bootstrap/event_loop.h"
#include "bootstrap/process.h"
#include "communicator/stall_watch.h"

namespace tutti {

// What a stall watch is to calls, for the ranks that have met and set their communicator up: they exchange what they
// know of their hosts, share memory and measure it. Who waits for long asks all others; a line says on every rank that
// waits which one does not come. Made by the thread that opens; goes when the control plane has gone, which may have
// questions of it until then.
class OpeningWatch {
 public:
  // warning: how long a rank waits before a line says so; 0: none. `health` and `control` outlive open().
  OpeningWatch(const std::string& name, int rank, int ranks, Health& health, ControlPlane& control,
               std::chrono::milliseconds warning);
  OpeningWatch(const OpeningWatch&) = delete;
  OpeningWatch& operator=(const OpeningWatch&) = delete;

  // What this rank does from now on: "looks at its machine". `waits`: with other ranks.
  void enters(const std::string& step, bool waits);
  // The communicator is open, or will never be: no more lines. Before the control plane goes; once.
  void end();

 private:
  std::vector<Activity> activities() const;
  void look();

  std::shared_ptr<Process> process_;  // shared with everybody who needs the control thread; null: it has ended
  ControlPlane& control_;
  const std::string name_;
  mutable std::mutex mutex_;  // guards the next three
  bool over_ = false;
  std::string step_;
  bool waits_ = false;
  const Clock::time_point since_;
  StallWatch stalls_;
  Stall stall_;                   // of the control thread, as the timer
  std::unique_ptr<Timer> timer_;  // null: it is over, or lines are not wanted
};

}  // namespace tutti
