#include "transport/shm/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/log.h"

namespace tutti {
namespace {

constexpr const char* kFolder = "/sys/kernel/mm/transparent_hugepage/";

std::string read(const std::string& file) {
  std::ifstream in(kFolder + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// "always within_size [advise] never": the word that holds.
std::string_view chosen(std::string_view text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  return begin == text.npos || end == text.npos || end < begin ? "" : text.substr(begin + 1, end - begin - 1);
}

}  // namespace

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

HugePages shared_huge_pages() {
  static const HugePages pages = shared_huge_pages(read("shmem_enabled"), read("hugepages-2048kB/shmem_enabled"));
  return pages;
}

HugePages shared_huge_pages(std::string_view all_sizes, std::string_view this_size) {
  std::string_view word = chosen(this_size);
  if (word.empty() || word == "inherit") word = chosen(all_sizes);
  if (word == "always" || word == "force" || word == "within_size") return HugePages::kAlways;
  return word == "advise" ? HugePages::kOnAdvice : HugePages::kNever;
}

std::string describe(HugePages pages) {
  switch (pages) {
    case HugePages::kOnAdvice:
      return "buffers of 2 MiB and more have huge pages, where the kernel finds some";
    case HugePages::kAlways:
      return "all buffers may have huge pages, where the kernel finds some";
    case HugePages::kNever:
      break;
  }
  return std::string("buffers have no huge pages: the kernel gives none to shared memory (echo advise > ") + kFolder +
         "shmem_enabled lets it)";
}

bool map_over(void* address, std::size_t bytes, PageSource source) {
  void* const mapped = ::mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, source.fd,
                              static_cast<off_t>(source.offset));
  if (mapped == MAP_FAILED) return false;
  if (shared_huge_pages() != HugePages::kNever) ::madvise(address, bytes, MADV_HUGEPAGE);
  return true;
}

bool replace_pages(void* address, std::size_t bytes, PageSource fresh, PageSource old) {
  if (fresh.fd < 0 || old.fd < 0) {  // memory of this process alone, which cannot lie at a second address
    errno = EOPNOTSUPP;
    return false;
  }
  if (map_over(address, bytes, fresh)) return true;
  const int error = errno;
  if (!map_over(address, bytes, old)) {
    log_line(LogLevel::kError, "the kernel took shared memory away and does not give it back: no way to go on");
    std::abort();
  }
  errno = error;
  return false;
}

void punch_hole(PageSource source, std::size_t bytes) {
  ::fallocate(source.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(source.offset),
              static_cast<off_t>(bytes));
}

MappedMemory map_shared(int fd, std::size_t bytes) {
  // A place that is large enough to begin at a multiple of a huge page. Where the limit on addresses leaves no room for
  // that, it begins anywhere.
  const std::size_t room_bytes = round_up(bytes, page_size()) + kHugePage;
  void* const room = bytes < kHugePage
                         ? MAP_FAILED
                         : ::mmap(nullptr, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* wanted = nullptr;
  if (room != MAP_FAILED) {
    const auto address = reinterpret_cast<std::uintptr_t>(room);
    const std::size_t before = round_up(address, kHugePage) - address;
    auto* const begin = static_cast<std::byte*>(room);
    std::byte* const end = begin + before + (room_bytes - kHugePage);
    wanted = begin + before;
    if (before > 0) ::munmap(room, before);
    if (before < kHugePage) ::munmap(end, kHugePage - before);
  }
  // As for a file, memory is counted when pages are taken.
  const int of_nobody = fd < 0 ? MAP_ANONYMOUS | MAP_NORESERVE : 0;
  void* const address = ::mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                               MAP_SHARED | of_nobody | (wanted != nullptr ? MAP_FIXED : 0), fd, 0);
  if (address != MAP_FAILED) return MappedMemory(address, bytes);
  const int error = errno;
  if (wanted != nullptr) ::munmap(wanted, room_bytes - kHugePage);
  errno = error;
  return {};
}

}  // namespace tutti
