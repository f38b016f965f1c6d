#include "transport/shm/memory_left.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

namespace tutti {
namespace {

// The files of a control group, under the names of version 2 and of version 1.
struct Files {
  const char* folder;
  const char* limit;
  const char* usage;
  std::array<const char*, 2> droppable;  // rows of memory.stat: pages of files, which the kernel can drop
};
constexpr Files kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr Files kVersion1{"/sys/fs/cgroup/memory",
                          "memory.limit_in_bytes",
                          "memory.usage_in_bytes",
                          {"total_inactive_file", "total_active_file"}};
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;  // version 1 says 2^63 less a page

// Rows of a key and a number, with or without a colon.
std::map<std::string, std::uint64_t> rows_of(const std::string& file) {
  std::map<std::string, std::uint64_t> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t value = 0;
    if (!(words >> key >> value)) continue;
    if (key.ends_with(':')) key.pop_back();
    rows[key] = value;
  }
  return rows;
}

std::optional<std::uint64_t> number_in(const std::string& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

void consider(const std::string& root, const Files& files, const std::string& group, MemoryLeft& left) {
  const std::string folder = files.folder + (group == "/" ? "" : group) + "/";
  const auto limit = number_in(root + folder + files.limit);  // "max" is no number
  const auto usage = number_in(root + folder + files.usage);
  if (!limit || !usage || *limit >= kNoLimit) return;
  auto statistics = rows_of(root + folder + "memory.stat");
  std::uint64_t droppable = 0;
  for (const char* row : files.droppable) droppable += statistics[row];
  const std::uint64_t kept = *usage - std::min(droppable, *usage);
  const std::uint64_t bytes = *limit - std::min(kept, *limit);
  if (left.bytes && *left.bytes <= bytes) return;
  left.bytes = bytes;
  left.limit = fmt::format("{} kB that {}{} allows", *limit / 1024, folder, files.limit);
}

}  // namespace

std::string MemoryLeft::text() const {
  if (!bytes) return "unknown";
  return fmt::format("{} kB{}", *bytes / 1024, limit.empty() ? "" : " of the " + limit);
}

MemoryLeft memory_left(const std::string& root) {
  MemoryLeft left;
  auto host = rows_of(root + "/proc/meminfo");
  if (host.contains("MemAvailable")) left.bytes = (host["MemAvailable"] + host["SwapFree"]) * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/group" of version 2, "5:cpu,memory:/group" of version 1.
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != ",," && controllers.find(",memory,") == controllers.npos) continue;
    const Files& files = controllers == ",," ? kVersion2 : kVersion1;
    // A group is held to the limits of all above it. Where a container sees its own group as the root, the path leads
    // nowhere until it ends there.
    for (std::string group = line.substr(second + 1); !group.empty() && group != "/";
         group.erase(group.find_last_of('/'))) {
      consider(root, files, group, left);
    }
    consider(root, files, "/", left);
  }
  return left;
}

}  // namespace tutti
