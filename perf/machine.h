#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::perf {

// Bytes that this process may still use: the machine's free memory or its control group's limit, whichever is less.
std::size_t available_memory();

// The most that this process has had in memory.
std::size_t peak_memory();

// What a rank may use, and of which machine.
struct MemoryShare {
  std::uint64_t machine;
  std::uint64_t available;
};

// The largest size for which every rank gets an input and an output; a quarter of the memory stays free for everything
// else. One share for each rank.
std::size_t largest_size(const std::vector<MemoryShare>& ranks);

// The same for all processes of one running kernel, containers and network namespaces included.
std::uint64_t machine_id();

std::string host_name();

// Whether all of these ranks are on one machine, with a processor for each.
bool have_processors(const std::vector<MemoryShare>& ranks);

}  // namespace tutti::perf
