#pragma once

#include <cstddef>

namespace tutti::perf::bare {

// Memory for floats, page by page zero, freed with the object. Private: what malloc gives a program for its buffers.
// Shared: what ranks that are processes share, which is where Tutti has slots and buffers of tutti::allocate.
class Memory {
 public:
  enum class Kind { kPrivate, kShared };

  Memory(Kind kind, std::size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  float* floats() const { return static_cast<float*>(memory_); }

 private:
  Kind kind_;
  std::size_t bytes_;
  void* memory_;
};

// Bytes of a processor's second-level cache; 1 MiB where the system does not say.
std::size_t second_level_cache();

}  // namespace tutti::perf::bare
