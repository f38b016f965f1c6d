#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

namespace tutti {

// Threads of this process. One that has been joined may be counted for a moment yet: waits until there are no more than
// so many, for five seconds at most.
inline std::size_t threads_left(std::size_t expected) {
  const auto count = [] {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
  };
  for (int i = 0; i < 1000 && count() > expected; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return count();
}

}  // namespace tutti
