#pragma once

#include "schedule/layout.h"

// The order in which rings and chains visit ranks: host after host, so that each wire between hosts is crossed once,
// and on one host group after group.
namespace tutti {

TUTTI_HOST_DEVICE constexpr int ring_place(const Layout& layout, int rank) {
  const Layout parts = as_groups(layout);
  return parts.hosts == 1 ? rank : parts.host_first[parts.host_of[rank]] + place_of(parts, rank);
}

// REQUIRES: -ranks <= place < 2·ranks; places are taken modulo the number of ranks.
TUTTI_HOST_DEVICE constexpr int ring_rank(const Layout& layout, int place) {
  if (place < 0) place += layout.ranks;
  if (place >= layout.ranks) place -= layout.ranks;
  const Layout parts = as_groups(layout);
  return parts.hosts == 1 ? place : parts.by_host[place];
}

}  // namespace tutti
