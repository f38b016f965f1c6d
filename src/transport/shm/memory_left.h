#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

// How much more memory this process may take before the kernel refuses, or ends somebody: what the host has (free,
// swap, and what it would drop for it), or what the limits of the container's control groups leave, whichever is less.
// An estimate: others take memory, too.
struct MemoryLeft {
  std::optional<std::uint64_t> bytes;  // nothing: this system does not say
  std::string limit;                   // the file with the limit that holds, with its value; "" when it is the host's

  // "1234 kB", "1234 kB of the 5678 kB that /sys/fs/cgroup/job/memory.max allows", or "unknown".
  std::string text() const;
};

// root: where /proc and /sys are found, for tests.
MemoryLeft memory_left(const std::string& root = "");

}  // namespace tutti
