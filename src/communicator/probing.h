#pragma once

#include <span>
#include <vector>

#include "base/clock.h"
#include "base/health.h"
#include "bootstrap/control_plane.h"
#include "communicator/distances.h"
#include "topology/cpu_place.h"
#include "transport/shm/host_group.h"

namespace tutti {

// What decides, on all ranks alike, whether a host's ranks measure their distances.
struct RankFacts {
  std::span<const int> usable;  // hardware threads that it may run on
  CpuPlace place;
};

// How many of these ranks, which share a host, take turns on a hardware thread: 1 where each has one, and only then may
// they spin. Launchers bind each rank to its own, so what one rank may use says nothing about the others.
int ranks_per_thread(std::span<const int> members, std::span<const RankFacts> facts);
// The same of the host where it is most; the same on all ranks.
int most_ranks_per_thread(const HostGroup& group, std::span<const RankFacts> facts);

// Measures the distances between the ranks of this rank's host and tells them to all ranks. Collective; where no host
// has several ranks that may spin nothing is measured, nor exchanged. A few milliseconds; throws Error.
// REQUIRES: the group's lines and small rings are present, and carry nothing before all ranks have returned.
Distances find_distances(const HostGroup& group, std::span<const RankFacts> facts, ControlPlane& control,
                         const Health& health, Deadline deadline);

}  // namespace tutti
