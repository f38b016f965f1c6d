#include "transport/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/blocked_signals.h"
#include "base/descriptors.h"
#include "base/file_size_limit.h"
#include "base/held_signals.h"
#include "base/system_error.h"
#include "transport/shm/memory_left.h"
#include "transport/shm/pages.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr int kSharedSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kLargePart = std::size_t{16} << 20;  // from here on it is asked beforehand what there is

#if !defined(MFD_NOEXEC_SEAL)
constexpr unsigned MFD_NOEXEC_SEAL = 8;
#endif

// Whether the call is not there, or forbidden, rather than at the end of something. A later try ends in the same way.
bool is_forbidden(int error) {
  return error == ENOSYS || error == EPERM || error == EACCES || error == EINVAL || error == EOPNOTSUPP;
}

// What the limit on virtual memory leaves to wish for, "" when there is none.
std::string address_space_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("; this process may use {} bytes of address space: raise the limit (ulimit -v)", limit.rlim_cur);
}

// What to say of EAGAIN, which a mapping gets where the program locks all its memory.
std::string locking_limit(int error) {
  return error == EAGAIN ? "; this process locks its memory (mlockall): raise the limit (ulimit -l)" : "";
}

// Returns errno. Many kernels give up what they have when a signal comes, and begin anew: with a timer that is fast
// enough, they never end. So no signal is let in while one piece is taken.
int allocate_pages(int fd, std::size_t offset, std::size_t bytes) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  int error = 0;
  while (bytes > 0 && error == 0) {
    const std::size_t piece = std::min(bytes, kPiece);
    const BlockedSignals blocked;
    do {
      error = ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(piece)) == 0 ? 0 : errno;
    } while (error == EINTR);
    offset += piece;
    bytes -= piece;
  }
  return error;
}

// Memory of a file that can be sealed.
UniqueFd open_memory() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(::memfd_create("tutti", kFlags));
  if (fd) return fd;
  const int error = errno;
  if (!is_forbidden(error))
    throw system_error("cannot create shared memory (memfd_create)", error, descriptor_advice(error));
  // Where vm.memfd_noexec is 2 only this is allowed. An older kernel knows no such flag.
  fd = UniqueFd(::memfd_create("tutti", kFlags | MFD_NOEXEC_SEAL));
  if (fd) return fd;
  throw NoSharedMemory(system_trouble("this process may not create shared memory (memfd_create)", error));
}

MappedMemory mapped(int fd, std::size_t bytes) {
  MappedMemory memory = map_shared(fd, bytes);
  if (memory) return memory;
  const int error = errno;
  throw Error(ErrorCode::kSystem,
              fmt::format("cannot map {} bytes of shared memory ({}; available: {}){}{}", bytes, errno_text(error),
                          memory_left().text(), address_space_limit(), locking_limit(error)));
}

}  // namespace

Segment::Segment(UniqueFd fd, MappedMemory memory) : fd_(std::move(fd)), memory_(std::move(memory)) {}

Segment Segment::create(std::size_t bytes) {
  UniqueFd fd = open_memory();
  {
    const HeldSignals held({SIGXFSZ});
    if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
      const int error = errno;
      const std::string trouble =
          system_trouble(fmt::format("cannot size shared memory to {} bytes", bytes), error, file_size_advice(error));
      if (error == EFBIG || is_forbidden(error)) throw NoSharedMemory(trouble);
      throw Error(ErrorCode::kSystem, trouble);
    }
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSharedSeals) != 0) {
    throw NoSharedMemory(system_trouble("cannot seal shared memory (F_ADD_SEALS)", errno));
  }
  MappedMemory memory = mapped(fd.get(), bytes);
  return {std::move(fd), std::move(memory)};
}

Segment Segment::create_private(std::size_t bytes) { return {UniqueFd(), mapped(-1, bytes)}; }

Segment Segment::map(UniqueFd fd, std::size_t bytes) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw system_error("cannot inspect a received segment", errno);
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSharedSeals) != kSharedSeals || static_cast<std::size_t>(status.st_size) != bytes) {
    throw Error(
        ErrorCode::kRemote,
        fmt::format("a rank of this host offered shared memory that is not sealed or has {} bytes instead of {}: "
                    "the ranks run different versions or settings",
                    status.st_size, bytes));
  }
  MappedMemory memory = mapped(fd.get(), bytes);
  return {std::move(fd), std::move(memory)};
}

void Segment::prefer_huge_pages() {
  if (shared_huge_pages() == HugePages::kNever) return;
  huge_pages_ = ::madvise(data(), size(), MADV_HUGEPAGE) == 0;
}

// Whatever does not succeed here is done, or fails, where memory is reserved in small pages.
void Segment::populate_huge_pages(std::size_t offset, std::size_t bytes) const {
#if defined(MADV_POPULATE_WRITE)
  // Mapped afresh: a table of the small pages that were here once would stay, and be filled again.
  void* const place = data() + offset;
  if (fd_) {
    void* const again =
        ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_.get(), static_cast<off_t>(offset));
    if (again != place) {
      throw system_error("cannot map shared memory again", errno, "sysctl vm.max_map_count bounds the mappings");
    }
  }
  ::madvise(place, bytes, MADV_HUGEPAGE);
  ::madvise(place, bytes, MADV_POPULATE_WRITE);
#else
  static_cast<void>(offset + bytes);
#endif
}

void Segment::reserve(std::size_t offset, std::size_t bytes, const std::string& purpose) const {
  const auto refuse = [&](const char* why, const MemoryLeft& left) {
    throw Error(
        ErrorCode::kSystem,
        fmt::format("cannot reserve {} bytes of shared memory for {} ({}; available: {}): free memory, or raise "
                    "the container's limit",
                    bytes, purpose, why, left.text()));
  };
  // Asked for more than there is, the kernel would rather end this process or another one than refuse.
  if (bytes >= kLargePart) {
    if (const MemoryLeft left = memory_left(); left.bytes && *left.bytes < bytes) refuse("too much", left);
  }
  // Before the rest: pages that are there already are not replaced by huge ones.
  const std::size_t first = round_up(offset, kHugePage);
  const std::size_t end = round_down(offset + bytes, kHugePage);
  if (huge_pages_ && first < end) populate_huge_pages(first, end - first);
  int error = fd_ ? allocate_pages(fd_.get(), offset, bytes) : ENOSYS;
  const bool allocated = error == 0;
  if (!allocated && !is_forbidden(error)) refuse(std::strerror(error), memory_left());
#if defined(MADV_POPULATE_WRITE)
  // Where the pages are there it only saves page faults later: a kernel that does not know it is no error.
  error = ::madvise(data() + offset, bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  if (!allocated && (error == ENOMEM || error == EFAULT)) refuse(std::strerror(error), memory_left());
#endif
}

void Segment::release(std::size_t offset, std::size_t bytes) const {
  if (fd_ && ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                         static_cast<off_t>(bytes)) == 0) {
    return;
  }
  ::madvise(data() + offset, bytes, MADV_REMOVE);
}

}  // namespace tutti
