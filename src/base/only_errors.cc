#include "base/only_errors.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <new>
#include <string>
#include <system_error>

#include "base/system_error.h"

namespace tutti {
namespace {

// "; this process may use 1234 bytes of address space (ulimit -v)", "" where there is no limit.
std::string limit_text(decltype(RLIMIT_AS) which, const char* what) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("; this process may use {} bytes of {}", limit.rlim_cur, what);
}

}  // namespace

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return {ErrorCode::kSystem, "the process is out of memory: free some, or raise its limit" +
                                    limit_text(RLIMIT_AS, "address space (ulimit -v)") +
                                    limit_text(RLIMIT_DATA, "data (ulimit -d)")};
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&exception)) {
    return {ErrorCode::kSystem, system->what()};
  }
  return {ErrorCode::kSystem, fmt::format("unexpected: {}", exception.what())};
}

}  // namespace tutti
