#include "perf/buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tutti::perf {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGuard = 64;
constexpr int kMark = 0xa5;

bool intact(const std::byte* guard) {
  return std::all_of(guard, guard + kGuard, [](std::byte byte) { return byte == std::byte{kMark}; });
}

}  // namespace

Buffer::Buffer(BufferKind kind, std::size_t bytes, std::size_t shift) : kind_(kind) {
  const std::size_t total = (kPage + shift + bytes + kGuard + kPage - 1) / kPage * kPage;  // front guard in a page
  void* memory = kind == BufferKind::kLibrary ? allocate(total) : std::aligned_alloc(kPage, total);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, total);
  if (kind == BufferKind::kRegistered) registration_ = register_memory(memory, total);
  memory_ = static_cast<std::byte*>(memory);
  data_ = memory_ + kPage + shift;
}

Buffer::~Buffer() {
  registration_ = {};
  if (kind_ == BufferKind::kLibrary) {
    deallocate(memory_);
  } else {
    std::free(memory_);
  }
}

void Buffer::set_guards(std::size_t used) {
  std::memset(data_ - kGuard, kMark, kGuard);
  std::memset(data_ + used, kMark, kGuard);
}

bool Buffer::front_guard_intact() const { return intact(data_ - kGuard); }

bool Buffer::back_guard_intact(std::size_t used) const { return intact(data_ + used); }

}  // namespace tutti::perf
