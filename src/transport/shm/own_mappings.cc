#include "transport/shm/own_mappings.h"

#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "tutti/error.h"

namespace tutti {

std::vector<Mapping> own_mappings(std::uintptr_t begin, std::uintptr_t end) {
  std::vector<Mapping> found;
  std::ifstream maps("/proc/self/maps");
  bool any = false;
  for (std::string line; std::getline(maps, line); any = true) {
    Mapping mapping;
    char permissions[5] = {};
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %*s %" SCNu64 " %n", &mapping.begin,
                    &mapping.end, permissions, &mapping.offset, &mapping.inode, &name) < 5) {
      continue;
    }
    if (mapping.end <= begin || mapping.begin >= end) continue;
    mapping.permissions = permissions;
    if (name > 0) mapping.name = line.substr(static_cast<std::size_t>(name));
    found.push_back(std::move(mapping));
  }
  if (!any) throw Error(ErrorCode::kSystem, "cannot read /proc/self/maps: is /proc mounted here?");
  return found;
}

}  // namespace tutti
