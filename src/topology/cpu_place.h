#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "topology/machine.h"

namespace tutti {

// Where a rank may run, as far as all its hardware threads agree on it. An object is named by the lowest hardware
// thread in it, so that the ranks of a machine mean the same by a number. A value.
struct CpuPlace {
  int package = Machine::kUnknown;
  int numa_node = Machine::kUnknown;
  int cache = Machine::kUnknown;  // of the last level

  bool operator==(const CpuPlace&) const = default;
};

// Of a rank that may run on these hardware threads. Where they lie in several objects of a kind, or hwloc does not
// know, that kind is unknown.
CpuPlace place_of_threads(const Machine& machine, std::span<const int> hardware_threads);

// How far two ranks of one host are from each other, ordered by distance.
enum class LinkClass : std::uint8_t {
  kNear,    // they share a last-level cache, or are as close as if they did
  kFar,     // they share a NUMA node
  kNuma,    // they share a package
  kSocket,  // they share the host
};
inline constexpr int kLinkClasses = 4;
std::string_view name(LinkClass link_class);  // "near" …

// What hwloc's picture says about two ranks; nothing where one of them is not bound closely enough.
std::optional<LinkClass> told_class(const CpuPlace& a, const CpuPlace& b);

}  // namespace tutti
