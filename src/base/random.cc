#include "base/random.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>

#include "base/descriptors.h"
#include "base/handles.h"
#include "base/system_error.h"

namespace tutti {
namespace {

// For where the system call is not there, or not allowed.
void read_device(std::span<std::byte> bytes) {
  const UniqueFd device(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  if (!device) throw system_error("cannot open /dev/urandom for random bytes", errno, descriptor_advice(errno));
  while (!bytes.empty()) {
    const ssize_t got = ::read(device.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw system_error("cannot read random bytes from /dev/urandom", got < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace

void fill_randomly(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return read_device(bytes);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace tutti
