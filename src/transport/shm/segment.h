#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/handles.h"

namespace tutti {

// A sealed piece of memory that processes share by handing its descriptor around: it has no name, so nothing is left
// when the last holder ends, and no mount's size limits it. Its size never changes.
class Segment {
 public:
  Segment() = default;

  // A new segment of `bytes`, zero-filled, mapped here. Pages are taken when touched or reserved.
  // Throws Error(kSystem).
  static Segment create(std::size_t bytes);
  // Maps a segment received from another process. Throws Error(kRemote) when it is not sealed or not of this size.
  static Segment map(UniqueFd fd, std::size_t bytes);

  // From now on reserve() takes huge pages for what covers whole ones, if the kernel gives any (pages.h).
  void prefer_huge_pages();

  // Takes memory for this part now, and makes it present: later accesses can't fail, and cost no page faults. The pages
  // come from the memory nearest to the calling thread. Throws Error(kSystem) that says how much was asked for and what
  // is available.
  void reserve(std::size_t offset, std::size_t bytes, const std::string& purpose) const;

  std::byte* data() const { return memory_.data(); }
  std::size_t size() const { return memory_.size(); }
  int descriptor() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(memory_); }

 private:
  Segment(UniqueFd fd, std::size_t bytes);
  void populate_huge_pages(std::size_t offset, std::size_t bytes) const;

  UniqueFd fd_;
  MappedMemory memory_;
  bool huge_pages_ = false;
};

}  // namespace tutti
