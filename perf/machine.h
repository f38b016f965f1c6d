#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::perf {

// Bytes that this process may still use: the machine's free memory or its control group's limit, whichever is less.
std::size_t available_memory();

// The most that this process has had in memory.
std::size_t peak_memory();

// The same for all processes of one running kernel, containers and network namespaces included.
std::uint64_t machine_id();

std::string host_name();

}  // namespace tutti::perf
