#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// One row of /proc/self/maps: what this process has at these addresses.
struct Mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::string permissions;   // "rw-p": read, write, execute, private or shared
  std::uint64_t offset = 0;  // in the file
  std::uint64_t inode = 0;   // 0: no file behind it
  std::string name;          // "", "[heap]", "/memfd:tutti (deleted)" …
};

// Those that reach into [begin, end), in order. Throws Error(kSystem) when the kernel does not tell.
std::vector<Mapping> own_mappings(std::uintptr_t begin, std::uintptr_t end);

}  // namespace tutti
