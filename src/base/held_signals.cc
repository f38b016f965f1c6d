#include "base/held_signals.h"

#include <time.h>

#include <cerrno>

namespace tutti {

HeldSignals::HeldSignals(std::initializer_list<int> signals) {
  sigset_t held, pending;
  sigemptyset(&held);
  sigemptyset(&ours_);
  ::sigpending(&pending);
  for (const int signal : signals) {
    sigaddset(&held, signal);
    if (sigismember(&pending, signal) == 0) sigaddset(&ours_, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() {
  const int saved_errno = errno;
  const timespec now{0, 0};
  while (::sigtimedwait(&ours_, nullptr, &now) > 0 || errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = saved_errno;
}

}  // namespace tutti
