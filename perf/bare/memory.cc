#include "perf/bare/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace tutti::perf::bare {
namespace {

constexpr std::size_t kPage = 4096;

void* map_shared(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // has an effect where the system allows it for shared memory
  return memory;
}

}  // namespace

Memory::Memory(Kind kind, std::size_t bytes) : kind_(kind), bytes_((bytes / kPage + 1) * kPage) {
  memory_ = kind == Kind::kShared ? map_shared(bytes_) : std::aligned_alloc(kPage, bytes_);
  if (memory_ == nullptr) throw std::bad_alloc();
  std::memset(memory_, 0, bytes_);
}

Memory::~Memory() {
  if (kind_ == Kind::kShared) {
    ::munmap(memory_, bytes_);
  } else {
    std::free(memory_);
  }
}

std::size_t second_level_cache() {
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{1} << 20;
}

}  // namespace tutti::perf::bare
