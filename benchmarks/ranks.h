#pragma once

#include <dirent.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

namespace tutti::benchmark {

// Since some time in the past.
inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline int open_descriptors() {
  int count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (directory != nullptr && ::readdir(directory) != nullptr) ++count;
  if (directory != nullptr) ::closedir(directory);
  return count;
}

// Calls `play` with each rank, in a thread of its own, and waits for all. What one throws ends the process.
template <class Play>
void run_ranks(int ranks, const Play& play) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&play, rank] {
      try {
        play(rank);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        std::_Exit(EXIT_FAILURE);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti::benchmark
