#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/descriptors.h"
#include "base/fork.h"

namespace tutti {

// A file descriptor that is closed once, in a forked child, too. Never one of the standard streams' numbers. Moved,
// never copied.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(above_standard_streams(fd)), made_in_(fork_generation()) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), made_in_(other.made_in_) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      made_in_ = other.made_in_;
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) close_descriptor(std::exchange(fd_, -1), made_in_);
  }

 private:
  int fd_ = -1;
  std::uint32_t made_in_ = 0;
};

// A mapping that is unmapped once. Moved, never copied.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(void* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  MappedMemory(MappedMemory&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    if (this != &other) {
      reset();
      address_ = std::exchange(other.address_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~MappedMemory() { reset(); }

  std::byte* data() const { return static_cast<std::byte*>(address_); }
  std::size_t size() const { return bytes_; }
  explicit operator bool() const { return address_ != nullptr; }
  void reset() {
    if (address_ != nullptr) ::munmap(address_, bytes_);
    address_ = nullptr;
    bytes_ = 0;
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tutti
