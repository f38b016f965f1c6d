#include "topology/cpu_place.h"

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

// The number of the object of one kind that holds all these hardware threads: the lowest thread in it.
int common(const Machine& machine, std::span<const int> threads, int Machine::Core::*kind) {
  int object = Machine::kUnknown;
  std::size_t found = 0;
  for (const Machine::Core& core : machine.cores) {
    const auto mine = std::ranges::count_if(
        core.hardware_threads, [threads](int thread) { return std::ranges::find(threads, thread) != threads.end(); });
    if (mine == 0) continue;
    if (core.*kind == Machine::kUnknown || (found > 0 && core.*kind != object)) return Machine::kUnknown;
    object = core.*kind;
    found += static_cast<std::size_t>(mine);
  }
  if (found == 0 || found < threads.size()) return Machine::kUnknown;
  int lowest = std::numeric_limits<int>::max();
  for (const Machine::Core& core : machine.cores) {
    if (core.*kind != object) continue;
    for (const int thread : core.hardware_threads) lowest = std::min(lowest, thread);
  }
  return lowest;
}

}  // namespace

CpuPlace place_of_threads(const Machine& machine, std::span<const int> hardware_threads) {
  if (machine.flat) return {};
  return {common(machine, hardware_threads, &Machine::Core::package),
          common(machine, hardware_threads, &Machine::Core::numa_node),
          common(machine, hardware_threads, &Machine::Core::l3)};
}

std::string_view name(LinkClass link_class) {
  constexpr std::string_view kNames[kLinkClasses] = {"near", "far", "numa", "socket"};
  return kNames[static_cast<int>(link_class)];
}

std::optional<LinkClass> told_class(const CpuPlace& a, const CpuPlace& b) {
  const auto shared = [&](int CpuPlace::*kind) { return a.*kind != Machine::kUnknown && a.*kind == b.*kind; };
  const auto known = [&](int CpuPlace::*kind) { return a.*kind != Machine::kUnknown && b.*kind != Machine::kUnknown; };
  const auto if_known = [&](int CpuPlace::*kind, LinkClass link_class) {
    return known(kind) ? std::optional(link_class) : std::nullopt;
  };
  if (shared(&CpuPlace::cache)) return LinkClass::kNear;
  if (shared(&CpuPlace::numa_node)) return if_known(&CpuPlace::cache, LinkClass::kFar);
  if (shared(&CpuPlace::package)) return if_known(&CpuPlace::numa_node, LinkClass::kNuma);
  return if_known(&CpuPlace::package, LinkClass::kSocket);
}

}  // namespace tutti
