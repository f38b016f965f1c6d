#include "base/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <mutex>

#include "base/fork.h"
#include "base/sync.h"
#include "tutti/error.h"

namespace tutti {
namespace {

long limit_of_process() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<long>::max();
  return static_cast<long>(limit.rlim_cur);
}

// What a little more than asked for is: then not every descriptor of the program itself is at the limit.
constexpr rlim_t kHeadroom = 64;

// The soft limit that the program had, and the one that it has of this library since; 0: it was never raised.
Word given{0};
Word raised{0};

// Programs that a child starts may use select(), or close every number up to the limit.
void give_back_in_child() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur != peek(raised)) return;
  limit.rlim_cur = peek(given);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// By so much and some. Returns whether it was raised.
bool raise_limit(long more) {
  const std::lock_guard lock(process_lock(ProcessLock::kDescriptorLimit));
  const int error = errno;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(limit.rlim_max, before + static_cast<rlim_t>(more) + kHeadroom);
  const bool changed = limit.rlim_cur > before && ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  errno = error;
  if (!changed) return false;
  if (peek(raised) != before) note(given, before);
  if (peek(raised) == 0) at_every_fork(give_back_in_child);
  note(raised, limit.rlim_cur);
  return true;
}

}  // namespace

int above_standard_streams(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(fd);
  errno = error;
  return moved;
}

StandardStreamsTaken::StandardStreamsTaken() {
  for (int& fd : taken_) {
    fd = ::eventfd(0, EFD_CLOEXEC);
    if (fd <= STDERR_FILENO) continue;
    ::close(fd);
    fd = -1;
    break;
  }
}

StandardStreamsTaken::~StandardStreamsTaken() {
  for (const int fd : taken_) {
    if (fd >= 0) ::close(fd);
  }
}

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

void require_descriptors(long needed, long wished, const std::string& purpose) {
  long available = free_descriptors();
  const long enough = std::max(needed, wished);
  if (available < enough && raise_limit(enough - available)) available = free_descriptors();
  if (available >= needed) return;
  throw Error(ErrorCode::kSystem,
              fmt::format("{} needs {} descriptors and {} of {} are left (EMFILE): raise the limit (ulimit -Hn), or "
                          "close some",
                          purpose, needed, available, limit_of_process()));
}

}  // namespace tutti
