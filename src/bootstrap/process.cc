#include "bootstrap/process.h"

#include <mutex>

#include "base/descriptors.h"
#include "base/fork.h"

namespace tutti {
namespace {

constexpr long kOfProcess = 3;  // of the event loop

}  // namespace

Process::Process() : made_in_(fork_generation()) {}

bool Process::is_this() const { return made_in_ == fork_generation(); }

std::shared_ptr<Process> Process::get() {
  static std::weak_ptr<Process> current;
  const std::lock_guard lock(process_lock(ProcessLock::kProcess));
  std::shared_ptr<Process> process = current.lock();
  if (!process || !process->is_this()) {
    require_descriptors(kOfProcess, "the control thread");
    process.reset(new Process);
    current = process;
  }
  return process;
}

}  // namespace tutti
