#include "collectives/dissemination.h"

#include "collectives/rows.h"
#include "collectives/traffic.h"

namespace tutti {
namespace {

Cost barrier_cost(const Layout& layout, double) {
  const Traffic traffic(layout);
  Cost cost;
  for (int distance = 1; distance < layout.ranks; distance *= 2) {
    traffic.shifted(cost, distance, 0);
    cost.steps += 1;
  }
  return cost;
}

}  // namespace

Algorithm dissemination_barrier() {
  return make_row<DisseminationBarrier>("dissemination", Collective::kBarrier, {kAlways, single_chunk, barrier_cost});
}

}  // namespace tutti
