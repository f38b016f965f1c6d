#pragma once

#include <signal.h>

#include <initializer_list>

namespace tutti {

// Keeps signals that a system call may send to its own thread from ending the program, while this object lives: SIGPIPE
// of a pipe without a reader, SIGXFSZ of a file at its limit. The call fails with its error all the same. Lives on the
// stack of one thread.
class HeldSignals {
 public:
  explicit HeldSignals(std::initializer_list<int> signals);
  // Takes back the signals that were caused meanwhile. Those that were pending before stay.
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
  sigset_t ours_;  // held, and not pending before
};

}  // namespace tutti
