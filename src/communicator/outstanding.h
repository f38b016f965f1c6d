#pragma once

#include <cstddef>
#include <mutex>

#include "base/sync.h"

namespace tutti {

// How many calls a communicator has besides its blocking collectives, which have an order: those of streams and groups,
// and sends and receives. destroy() closes this first and goes on when the last of them has ended. Any thread.
class OutstandingCalls {
 public:
  // False: closed, no call may begin.
  bool enter() {
    const std::lock_guard lock(lock_);
    if (closed_) return false;
    ++count_;
    return true;
  }
  // Of a call that entered.
  void leave() {
    const std::lock_guard lock(lock_);
    --count_;
  }
  void close() {
    const std::lock_guard lock(lock_);
    closed_ = true;
  }
  bool none() {
    const std::lock_guard lock(lock_);
    return count_ == 0;
  }

 private:
  SpinLock lock_;  // guards what is below
  std::size_t count_ = 0;
  bool closed_ = false;
};

// For a pointer that stands for a call that entered.
struct LeaveOutstanding {
  void operator()(OutstandingCalls* calls) const { calls->leave(); }
};

}  // namespace tutti
