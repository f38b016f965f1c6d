#pragma once

#include "schedule/layout.h"

// The order in which rings and chains visit ranks: host after host, so that each wire between hosts is crossed once.
namespace tutti {

TUTTI_HOST_DEVICE constexpr int ring_place(const Layout& layout, int rank) {
  return layout.hosts == 1 ? rank : layout.host_first[layout.host_of[rank]] + place_of(layout, rank);
}

// REQUIRES: -ranks <= place < 2·ranks; places are taken modulo the number of ranks.
TUTTI_HOST_DEVICE constexpr int ring_rank(const Layout& layout, int place) {
  if (place < 0) place += layout.ranks;
  if (place >= layout.ranks) place -= layout.ranks;
  return layout.hosts == 1 ? place : layout.by_host[place];
}

}  // namespace tutti
