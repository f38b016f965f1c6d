#pragma once

#include <cstddef>

#include "perf/buffer_kind.h"
#include "tutti/memory.h"

namespace tutti::perf {

// Memory of one rank, made and first touched by its thread, with guard bytes around what a call may use. Throws
// std::bad_alloc or tutti::Error.
class Buffer {
 public:
  // data() lies `shift` bytes behind a page boundary.
  Buffer(BufferKind kind, std::size_t bytes, std::size_t shift);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }

  // Marks the bytes before data() and behind data() + used.
  void set_guards(std::size_t used);
  bool front_guard_intact() const;
  bool back_guard_intact(std::size_t used) const;

 private:
  BufferKind kind_;
  std::byte* memory_;
  std::byte* data_;
  Registration registration_;
};

}  // namespace tutti::perf
