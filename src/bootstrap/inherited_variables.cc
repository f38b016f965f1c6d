#include "bootstrap/inherited_variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "base/text.h"
#include "bootstrap/event_loop.h"

namespace tutti {
namespace {

constexpr int kFurthest = 32;  // processes above this one

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int parent_of(int pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  constexpr std::string_view kField = "PPid:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kField)) return whole_number<int>(trimmed(line.substr(kField.size()))).value_or(0);
  }
  return 0;
}

bool has_control_thread(int pid) {
  std::error_code failure;
  for (std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", pid), failure), end;
       !failure && task != end; task.increment(failure)) {
    if (first_line(task->path().string() + "/comm") == EventLoop::kThreadName) return true;
  }
  return false;
}

}  // namespace

std::string inherited_variables_hint() {
  int pid = static_cast<int>(::getppid());
  for (int steps = 0; pid > 1 && steps < kFurthest; ++steps, pid = parent_of(pid)) {
    if (!has_control_thread(pid)) continue;
    return fmt::format(
        "process {} ({}), which has started this one, is a rank itself: this process has inherited its variables, and "
        "that job has met already. A helper that needs no other ranks is started with TUTTI_RANK=0 TUTTI_NRANKS=1",
        pid, first_line(fmt::format("/proc/{}/comm", pid)));
  }
  return "";
}

}  // namespace tutti
