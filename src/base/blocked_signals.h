#pragma once

#include <signal.h>

#include <initializer_list>

namespace tutti {

// Keeps signals from the calling thread while it lives, and from threads that are started meanwhile: they are for the
// program's own threads. What a thread causes itself by a mistake (SIGSEGV, SIGBUS …) is let through: the kernel would
// end the process without asking the program's handler.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t most;
    sigfillset(&most);
    for (const int own : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) sigdelset(&most, own);
    ::pthread_sigmask(SIG_SETMASK, &most, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tutti
