#include "base/store_barrier.h"

#include <linux/membarrier.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>

#include "base/sync.h"

namespace tutti {
namespace {

Word joined_before{0};

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

bool join_store_barrier() {
  static const bool joined = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && settle_all_processors();
  note(joined_before, 1);
  return joined;
}

bool settle_all_processors() { return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

JoiningStoreBarrier::JoiningStoreBarrier() {
  if (peek(joined_before) != 0) return;
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  try {
    thread_ = std::thread([] { join_store_barrier(); });
  } catch (const std::system_error&) {
    // Then it is done when it is needed.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

JoiningStoreBarrier::~JoiningStoreBarrier() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace tutti
