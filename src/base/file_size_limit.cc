#include "base/file_size_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>

namespace tutti {

std::optional<std::uint64_t> file_size_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

std::string file_size_advice(int error) {
  const auto limit = file_size_limit();
  if (error != EFBIG || !limit) return "";
  return fmt::format("files and shared memory of this process may have {} bytes: raise the limit (ulimit -f)", *limit);
}

}  // namespace tutti
