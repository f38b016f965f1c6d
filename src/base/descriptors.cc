#include "base/descriptors.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "tutti/error.h"

namespace tutti {
namespace {

long limit_of_process() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<long>::max();
  return static_cast<long>(limit.rlim_cur);
}

void raise_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

long free_descriptors() {
  DIR* const directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return errno == EMFILE ? 0 : limit_of_process();
  long open = -3;  // "." and ".." and the one that lists them
  while (::readdir(directory) != nullptr) ++open;
  ::closedir(directory);
  return std::max(0L, limit_of_process() - open);
}

std::string descriptor_advice(int error) {
  if (error == ENFILE) return "the whole system has no descriptors left (sysctl fs.file-max)";
  if (error != EMFILE) return "";
  return fmt::format(
      "all {} descriptors that this process may have are in use: raise the limit (ulimit -Hn), or close "
      "some",
      limit_of_process());
}

void require_descriptors(long needed, const std::string& purpose) {
  raise_limit();
  const long available = free_descriptors();
  if (available >= needed) return;
  throw Error(ErrorCode::kSystem,
              fmt::format("{} needs {} descriptors and {} of {} are left (EMFILE): raise the limit (ulimit -Hn), or "
                          "close some",
                          purpose, needed, available, limit_of_process()));
}

}  // namespace tutti
