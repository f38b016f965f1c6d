#pragma once

#include <cstddef>

namespace tutti {

// Pages between two that fault on any access, for finding reads and writes out of bounds. Owned by the test.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t min_bytes);
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();

  std::byte* begin() const { return begin_; }
  std::byte* end() const { return begin_ + bytes_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* begin_;
  std::size_t bytes_;
};

}  // namespace tutti
