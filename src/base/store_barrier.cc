#include "base/store_barrier.h"

#include <linux/membarrier.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>

#include "base/fork.h"
#include "base/sync.h"
#include "base/threads.h"

namespace tutti {
namespace {

// The process that has tried to join, by its fork_generation() from 1, and whether it has: no lock, which a forked
// child would find held. Who tries at the same time does it twice.
Word tried{0};
constexpr std::uint64_t kJoined = 1;

std::uint64_t this_process() { return (std::uint64_t{fork_generation()} + 1) << 1; }
bool has_tried() { return (peek(tried) & ~kJoined) == this_process(); }

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

bool join_store_barrier() {
  if (!has_tried()) {
    const bool joined = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && settle_all_processors();
    note(tried, this_process() | (joined ? kJoined : 0));
  }
  return (peek(tried) & kJoined) != 0;
}

bool settle_all_processors() { return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

JoiningStoreBarrier::JoiningStoreBarrier() {
  if (has_tried()) return;
  if (__libc_single_threaded) {  // then the kernel has no other thread to wait for, and answers at once
    join_store_barrier();
    return;
  }
  try {
    thread_ = start_thread("tutti-barrier", "that joins the store barrier", [] { join_store_barrier(); });
  } catch (const std::exception&) {
    // Then it is done when it is needed.
  }
}

JoiningStoreBarrier::~JoiningStoreBarrier() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace tutti
