#pragma once

#include <cstdint>
#include <memory>

#include "bootstrap/event_loop.h"

namespace tutti {

// What all communicators of this process share: the control thread. Made by the first that needs it and gone, thread
// and descriptors included, with the last. Any thread may call anything.
class Process {
 public:
  // Shared: every communicator, and every root that waits for its ranks, holds one; the last to go ends the thread.
  // A forked child gets one of its own. Must not be dropped on the control thread.
  static std::shared_ptr<Process> get();

  EventLoop& loop() { return loop_; }
  // False in a forked child, where the control thread does not exist.
  bool is_this() const;

 private:
  Process();

  EventLoop loop_;
  const std::uint32_t made_in_;  // fork_generation()
};

}  // namespace tutti
