#pragma once

#include "bootstrap/event_loop.h"

namespace tutti {

// Listens to a signal that asks for a report, if the application does not handle it. The handler does no more than wake
// the control thread, which also takes the signal itself when all other threads block it. Owned by Process; one at a
// time in a process.
class DumpSignal {
 public:
  // Takes the signal over when it has its default effect; from then on `on_signal` is called on the loop's thread.
  // Throws Error(kSystem).
  DumpSignal(EventLoop& loop, int signal, std::function<void()> on_signal);
  // Gives the signal its default effect back, unless somebody else has taken it since.
  ~DumpSignal();
  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;

 private:
  void listen();

  EventLoop& loop_;
  const int signal_;
  std::function<void()> on_signal_;
  std::unique_ptr<Watch> bell_;  // made and used on the loop's thread; null: the application handles the signal
};

}  // namespace tutti
