#include "perf/machine.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>

namespace tutti::perf {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// The number in a file of control groups, or kNoLimit for "max" and for no file.
std::size_t read_number(const std::string& path) {
  std::ifstream file(path);
  std::size_t value = 0;
  return file >> value ? value : kNoLimit;
}

std::size_t free_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::size_t kilobytes = 0;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes << 10;
    std::getline(file, unit);
  }
  return kNoLimit;
}

std::size_t group_memory() {
  const std::size_t limit = read_number("/sys/fs/cgroup/memory.max");
  const std::size_t used = read_number("/sys/fs/cgroup/memory.current");
  return limit == kNoLimit || used == kNoLimit ? kNoLimit : limit - std::min(limit, used);
}

}  // namespace

std::size_t available_memory() { return std::min(free_memory(), group_memory()); }

std::size_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) << 10;
}

std::size_t largest_size(const std::vector<MemoryShare>& ranks) {
  std::size_t largest = kNoLimit;
  for (const MemoryShare& rank : ranks) {
    const auto neighbours = std::count_if(ranks.begin(), ranks.end(),
                                          [&](const MemoryShare& other) { return other.machine == rank.machine; });
    largest = std::min(largest, rank.available / 4 * 3 / (2 * static_cast<std::size_t>(neighbours)));
  }
  return largest;
}

std::uint64_t machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return std::hash<std::string>()(id);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  const std::string full = name;
  return full.substr(0, full.find('.'));
}

bool have_processors(const std::vector<MemoryShare>& ranks) {
  const auto elsewhere = [&](const MemoryShare& rank) { return rank.machine != ranks.front().machine; };
  return ranks.size() <= static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN)) &&
         std::none_of(ranks.begin(), ranks.end(), elsewhere);
}

}  // namespace tutti::perf
