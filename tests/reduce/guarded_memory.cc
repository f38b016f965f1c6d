#include "reduce/guarded_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace tutti {
namespace {

constexpr std::size_t kPage = 65536;  // a multiple of every page size in use

}  // namespace

GuardedMemory::GuardedMemory(std::size_t min_bytes) : bytes_((min_bytes + kPage - 1) / kPage * kPage) {
  void* all = mmap(nullptr, bytes_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  begin_ = static_cast<std::byte*>(all) + kPage;
  if (mprotect(begin_, bytes_, PROT_READ | PROT_WRITE) != 0) {
    throw std::system_error(errno, std::generic_category(), "mprotect");
  }
}

GuardedMemory::~GuardedMemory() { munmap(begin_ - kPage, bytes_ + 2 * kPage); }

}  // namespace tutti
