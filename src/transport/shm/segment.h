#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/handles.h"
#include "tutti/error.h"

namespace tutti {

// The system does not let this process make memory that others can map: a sandbox's filter, a kernel without the call,
// a limit on the size of files. Whoever can do without it goes on.
class NoSharedMemory : public Error {
 public:
  explicit NoSharedMemory(const std::string& why) : Error(ErrorCode::kSystem, why) {}
};

// A sealed piece of memory that processes share by handing its descriptor around: it has no name, so nothing is left
// when the last holder ends, and no mount's size limits it. Its size never changes. One of a process alone has no
// descriptor.
class Segment {
 public:
  Segment() = default;

  // A new segment of `bytes`, zero-filled, mapped here. Pages are taken when touched or reserved.
  // Throws Error(kSystem); NoSharedMemory where this process may make none of this size.
  static Segment create(std::size_t bytes);
  // The same for this process alone: needs no permission but for its memory.
  static Segment create_private(std::size_t bytes);
  // Maps a segment received from another process. Throws Error(kRemote) when it is not sealed or not of this size.
  static Segment map(UniqueFd fd, std::size_t bytes);

  // From now on reserve() takes huge pages for what covers whole ones, if the kernel gives any (pages.h).
  void prefer_huge_pages();

  // Takes memory for this part now, and makes it present: later accesses can't fail, and cost no page faults. The pages
  // come from the memory nearest to the calling thread. Throws Error(kSystem) that says how much was asked for and what
  // is available.
  void reserve(std::size_t offset, std::size_t bytes, const std::string& purpose) const;
  // Gives the memory of this part back to the system. The addresses stay.
  void release(std::size_t offset, std::size_t bytes) const;

  std::byte* data() const { return memory_.data(); }
  std::size_t size() const { return memory_.size(); }
  int descriptor() const { return fd_.get(); }  // -1: of this process alone
  explicit operator bool() const { return static_cast<bool>(memory_); }

 private:
  Segment(UniqueFd fd, MappedMemory memory);
  void populate_huge_pages(std::size_t offset, std::size_t bytes) const;

  UniqueFd fd_;
  MappedMemory memory_;
  bool huge_pages_ = false;
};

}  // namespace tutti
