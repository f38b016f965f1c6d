#include "transport/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void throw_system(const std::string& what) {
  const int error = errno;
  throw Error(ErrorCode::kSystem, fmt::format("{}: {}", what, std::strerror(error)));
}

// What the limit on virtual memory leaves to wish for, "" when there is none.
std::string address_space_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("; this process may use {} bytes of address space: raise the limit (ulimit -v)", limit.rlim_cur);
}

// "1234 kB" of /proc/meminfo's MemAvailable, or "unknown".
std::string available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::string value;
  while (meminfo >> key >> value) {
    if (key == "MemAvailable:") return value + " kB";
    std::getline(meminfo, key);
  }
  return "unknown";
}

// Returns errno. Many kernels give up what they have when a signal comes, and begin anew: with a timer that is fast
// enough, they never end. So no signal is let in while one piece is taken.
int allocate_pages(int fd, std::size_t offset, std::size_t bytes) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  sigset_t all;
  sigfillset(&all);
  int error = 0;
  while (bytes > 0 && error == 0) {
    const std::size_t piece = std::min(bytes, kPiece);
    sigset_t before;
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    do {
      error = ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(piece)) == 0 ? 0 : errno;
    } while (error == EINTR);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    offset += piece;
    bytes -= piece;
  }
  return error;
}

}  // namespace

Segment::Segment(UniqueFd fd, std::size_t bytes) : fd_(std::move(fd)) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    throw Error(ErrorCode::kSystem, fmt::format("cannot map {} bytes of shared memory ({}; available: {}){}", bytes,
                                                std::strerror(error), available_memory(), address_space_limit()));
  }
  memory_ = MappedMemory(address, bytes);
}

Segment Segment::create(std::size_t bytes) {
  UniqueFd fd(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw_system("cannot create shared memory (memfd_create; ulimit -n bounds the descriptors of a process)");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    throw_system(fmt::format("cannot size shared memory to {} bytes", bytes));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) throw_system("cannot seal shared memory");
  return Segment(std::move(fd), bytes);
}

Segment Segment::map(UniqueFd fd, std::size_t bytes) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_system("cannot inspect a received segment");
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || static_cast<std::size_t>(status.st_size) != bytes) {
    throw Error(
        ErrorCode::kRemote,
        fmt::format("a rank of this host offered shared memory that is not sealed or has {} bytes instead of {}: "
                    "the ranks run different versions or settings",
                    status.st_size, bytes));
  }
  return Segment(std::move(fd), bytes);
}

void Segment::reserve(std::size_t offset, std::size_t bytes, const std::string& purpose) const {
  if (const int error = allocate_pages(fd_.get(), offset, bytes); error != 0) {
    throw Error(
        ErrorCode::kSystem,
        fmt::format("cannot reserve {} bytes of shared memory for {} ({}; available: {}): free memory, or raise the "
                    "container's limit",
                    bytes, purpose, std::strerror(error), available_memory()));
  }
#if defined(MADV_POPULATE_WRITE)
  // Only saves page faults later: a kernel that does not know it is no error.
  ::madvise(data() + offset, bytes, MADV_POPULATE_WRITE);
#endif
}

}  // namespace tutti
