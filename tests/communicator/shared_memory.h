#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "tutti/communicator.h"

namespace tutti {

// Buffers that all ranks of a host see, each through a mapping of its own: here all in one process.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kSeesSharedMemory = false;
#else
inline constexpr bool kSeesSharedMemory = true;
#endif
inline constexpr const char* kWhyItDoesNot = "the thread sanitizer takes two mappings of one memory for two memories";

// Adds a buffer up over two ranks, again and again: the sums are right, and peers read them where they lie.
inline void expect_read_in_place(Communicator& communicator, float* values, std::size_t count) {
  for (int i = 0; i < 10; ++i) {
    std::fill_n(values, count, 1.0f);
    communicator.all_reduce(values, values, count, DataType::kF32, kSum);
    ASSERT_EQ(std::count(values, values + count, 2.0f), static_cast<std::ptrdiff_t>(count));
  }
  EXPECT_GT(communicator.statistics().messages_read_in_place, 0u);
}

}  // namespace tutti
