#include "collectives/two_level.h"

#include "collectives/hierarchical_all_reduce.h"
#include "collectives/hierarchical_blocks.h"
#include "collectives/hierarchical_tree.h"
#include "collectives/rows.h"

namespace tutti {
namespace {

// What the row for several hosts says, of groups. Its cost is taken of groups by whoever asks (see cost_of()).
template <Algorithm (*Row)()>
Chunking chunking(const Layout& layout) {
  static const Algorithm row = Row();
  return row.chunking(as_groups(layout));
}

template <class Hierarchical, Algorithm (*Row)()>
Algorithm two_level() {
  const Algorithm row = Row();
  return make_row<TwoLevel<Hierarchical>>("two_level", row.collective, {kSeveralGroups, chunking<Row>, row.cost});
}

}  // namespace

Algorithm two_level_all_reduce() { return two_level<HierarchicalAllReduce, hierarchical_all_reduce>(); }
Algorithm two_level_all_gather() { return two_level<HierarchicalAllGather, hierarchical_all_gather>(); }
Algorithm two_level_reduce_scatter() { return two_level<HierarchicalReduceScatter, hierarchical_reduce_scatter>(); }
Algorithm two_level_broadcast() { return two_level<HierarchicalBroadcast, hierarchical_broadcast>(); }
Algorithm two_level_reduce() { return two_level<HierarchicalReduce, hierarchical_reduce>(); }
Algorithm two_level_barrier() { return two_level<HierarchicalBarrier, hierarchical_barrier>(); }

}  // namespace tutti
