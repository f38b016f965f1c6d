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

#include "transport/shm/memory_left.h"
#include "transport/shm/pages.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::size_t kLargePart = std::size_t{16} << 20;  // from here on it is asked beforehand what there is
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
  memory_ = map_shared(fd_.get(), bytes);
  if (memory_) return;
  const int error = errno;
  throw Error(ErrorCode::kSystem, fmt::format("cannot map {} bytes of shared memory ({}; available: {}){}", bytes,
                                              std::strerror(error), memory_left().text(), address_space_limit()));
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

void Segment::prefer_huge_pages() {
  if (shared_huge_pages() == HugePages::kNever) return;
  huge_pages_ = ::madvise(data(), size(), MADV_HUGEPAGE) == 0;
}

// Whatever does not succeed here is done, or fails, where memory is reserved in small pages.
void Segment::populate_huge_pages(std::size_t offset, std::size_t bytes) const {
#if defined(MADV_POPULATE_WRITE)
  // Mapped afresh: a table of the small pages that were here once would stay, and be filled again.
  void* const place = data() + offset;
  void* const mapped =
      ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_.get(), static_cast<off_t>(offset));
  if (mapped != place) throw_system("cannot map shared memory again (sysctl vm.max_map_count bounds the mappings)");
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
  if (const int error = allocate_pages(fd_.get(), offset, bytes); error != 0) {
    refuse(std::strerror(error), memory_left());
  }
#if defined(MADV_POPULATE_WRITE)
  // Only saves page faults later: a kernel that does not know it is no error.
  ::madvise(data() + offset, bytes, MADV_POPULATE_WRITE);
#endif
}

}  // namespace tutti
