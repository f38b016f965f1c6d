#pragma once

#include "schedule/layout.h"
#include "schedule/peer_sets.h"
#include "schedule/step.h"

// The hierarchical algorithms one level further in: groups of ranks on one host, NUMA nodes or caches, take the place
// of hosts. Values cross between groups as seldom as they can.
namespace tutti {

template <class Hierarchical>
struct TwoLevel {
  TUTTI_HOST_DEVICE static constexpr int steps(const Layout& layout, int root) {
    return Hierarchical::steps(as_groups(layout), root);
  }
  TUTTI_HOST_DEVICE static constexpr Step step(const Layout& layout, int root, int index) {
    Step step = Hierarchical::step(as_groups(layout), root, index);
    step.from = inside(step.from);
    step.to = inside(step.to);
    return step;
  }

 private:
  TUTTI_HOST_DEVICE static constexpr PeerSet inside(PeerSet set) {
    return set == kHostPeers ? kGroupPeers : set == kRailPeers ? kGroupRailPeers : set;
  }
};

}  // namespace tutti
