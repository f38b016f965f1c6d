#pragma once

#include <cstdint>

#include "schedule/step.h"

namespace tutti {

// How the ranks of a communicator are placed, as plain numbers for generators on host and device. The arrays belong
// to whoever built the layout (see placement.h) and live as long as it is used.
//
// With one host the arrays may be null.
struct Layout {
  int ranks = 1;
  int rank = 0;
  int hosts = 1;
  const std::uint16_t* host_of = nullptr;     // [ranks] host of each rank; hosts are numbered by their lowest rank
  const std::uint16_t* by_host = nullptr;     // [ranks] ranks listed host by host, ascending within each
  const std::uint16_t* host_first = nullptr;  // [hosts+1] where each host's ranks begin in by_host
  // Groups of ranks within the only host that are closer to each other than to the rest: those of a NUMA node, or of a
  // cache. Arrays as for hosts. 1: there are several hosts, or nothing to group.
  int groups = 1;
  const std::uint16_t* group_of = nullptr;
  const std::uint16_t* by_group = nullptr;
  const std::uint16_t* group_first = nullptr;
  bool inside_host = false;  // its "hosts" are the groups of one host: see as_groups()
};

// The groups of one host as if each were a host: for what is the same one level further in. Several hosts, and a host
// without groups, stay as they are.
TUTTI_HOST_DEVICE constexpr Layout as_groups(const Layout& layout) {
  if (layout.hosts > 1 || layout.groups == 1) return layout;
  Layout groups = layout;
  groups.hosts = layout.groups;
  groups.host_of = layout.group_of;
  groups.by_host = layout.by_group;
  groups.host_first = layout.group_first;
  groups.groups = 1;
  groups.inside_host = true;
  return groups;
}

TUTTI_HOST_DEVICE constexpr int host_of(const Layout& layout, int rank) {
  return layout.hosts == 1 ? 0 : layout.host_of[rank];
}

// How many ranks a host has.
TUTTI_HOST_DEVICE constexpr int host_size(const Layout& layout, int host) {
  return layout.hosts == 1 ? layout.ranks : layout.host_first[host + 1] - layout.host_first[host];
}

// The rank at a place of a host's list. REQUIRES: place < host_size().
TUTTI_HOST_DEVICE constexpr int rank_at(const Layout& layout, int host, int place) {
  return layout.hosts == 1 ? place : layout.by_host[layout.host_first[host] + place];
}

// The place of a rank in its host's list: rank_at(host_of(rank), place_of(rank)) == rank. O(log ranks).
TUTTI_HOST_DEVICE constexpr int place_of(const Layout& layout, int rank) {
  if (layout.hosts == 1) return rank;
  const int host = layout.host_of[rank];
  int low = 0;
  int high = host_size(layout, host);
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (rank_at(layout, host, middle) <= rank) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace tutti
