#include "bootstrap/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <mutex>

namespace tutti {

Process::Process() : pid_(::getpid()) {
  // Sockets to many ranks need many descriptors; the soft limit is there for programs that use select().
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

bool Process::is_this() const { return pid_ == ::getpid(); }

std::shared_ptr<Process> Process::get() {
  static std::mutex mutex;
  static std::weak_ptr<Process> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Process> process = current.lock();
  if (!process || !process->is_this()) {
    process.reset(new Process);
    current = process;
  }
  return process;
}

}  // namespace tutti
