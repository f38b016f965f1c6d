#include "base/standard_error.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <utility>

#include "base/held_signals.h"

namespace tutti {
namespace {

constexpr int kPatience_ms = 10;

// The last text did not fit: the next one does not wait until one has fitted again.
std::atomic<bool> stuck{false};

// What write() returns, and EAGAIN where there is no room now. O_NONBLOCK is no way: it is a flag of the open file,
// which other processes share.
ssize_t write_without_waiting(std::string_view text) {
  struct stat status {};
  if (::fstat(STDERR_FILENO, &status) != 0) return -1;
  if (S_ISSOCK(status.st_mode)) {
    return ::send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  const bool may_wait = S_ISFIFO(status.st_mode) || (S_ISCHR(status.st_mode) && ::isatty(STDERR_FILENO) == 1);
  if (!may_wait) return ::write(STDERR_FILENO, text.data(), text.size());
  iovec piece{const_cast<char*>(text.data()), text.size()};
  const ssize_t written = ::pwritev2(STDERR_FILENO, &piece, 1, -1, RWF_NOWAIT);
  if (written >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) return written;
  // Older kernels, and terminals: the same pipe, opened once more for this one write.
  const int again = ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (again >= 0) {
    const ssize_t result = ::write(again, text.data(), text.size());
    const int error = errno;
    ::close(again);
    errno = error;
    return result;
  }
  if (errno == ENXIO) {  // a pipe without a reader
    errno = EPIPE;
    return -1;
  }
  // A pipe that says it is writable has room for so much.
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, 0) != 1) {
    errno = EAGAIN;
    return -1;
  }
  return ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
}

}  // namespace

bool write_to_standard_error(std::string_view text) {
  const HeldSignals held({SIGPIPE, SIGXFSZ});
  int patience_ms = stuck.load(std::memory_order_relaxed) ? 0 : kPatience_ms;
  while (!text.empty()) {
    const ssize_t written = write_without_waiting(text);
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN && patience_ms > 0) {
      pollfd room{STDERR_FILENO, POLLOUT, 0};
      ::poll(&room, 1, std::exchange(patience_ms, 0));
      continue;
    }
    break;
  }
  stuck.store(!text.empty(), std::memory_order_relaxed);
  return text.empty();
}

}  // namespace tutti
