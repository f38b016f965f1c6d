#include "base/threads.h"

#include <fmt/format.h>
#include <pthread.h>

#include <new>
#include <system_error>
#include <utility>

#include "base/arithmetic.h"
#include "base/blocked_signals.h"
#include "base/system_error.h"

namespace tutti {

std::string thread_trouble(const std::string& purpose, int error) {
  return system_trouble(
      fmt::format("cannot start a thread {}", purpose), error,
      "raise the limit of processes (ulimit -u) or pids.max of the container; a limit on address space (ulimit -v) "
      "bounds the threads, too, whose stacks are as long as ulimit -s says; EPERM and ENOSYS come from the "
      "container's seccomp profile, which must allow clone3, or answer it with ENOSYS");
}

std::thread start_thread(const char* name, const std::string& purpose, std::function<void()> work) {
  const BlockedSignals blocked;
  try {
    return std::thread([name, work = std::move(work)] {
      ::pthread_setname_np(::pthread_self(), name);
      DefaultArithmetic::keep();
      work();
    });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kSystem, thread_trouble(purpose, error.code().value()));
  }
}

}  // namespace tutti
