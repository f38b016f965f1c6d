#include "bootstrap/process.h"

#include <sys/resource.h>

#include <mutex>

#include "base/fork.h"

namespace tutti {

Process::Process() : made_in_(fork_generation()) {
  // Sockets to many ranks need many descriptors; the soft limit is there for programs that use select().
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

bool Process::is_this() const { return made_in_ == fork_generation(); }

std::shared_ptr<Process> Process::get() {
  static std::weak_ptr<Process> current;
  const std::lock_guard lock(process_lock(ProcessLock::kProcess));
  std::shared_ptr<Process> process = current.lock();
  if (!process || !process->is_this()) {
    process.reset(new Process);
    current = process;
  }
  return process;
}

}  // namespace tutti
