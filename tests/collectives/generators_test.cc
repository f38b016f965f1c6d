#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/binomial.h"
#include "collectives/bruck.h"
#include "collectives/chain.h"
#include "collectives/dissemination.h"
#include "collectives/double_tree.h"
#include "collectives/halving_doubling.h"
#include "collectives/hierarchical_all_reduce.h"
#include "collectives/hierarchical_blocks.h"
#include "collectives/hierarchical_tree.h"
#include "collectives/one_shot.h"
#include "collectives/pairwise.h"
#include "collectives/pat.h"
#include "collectives/recursive_doubling.h"
#include "collectives/registry.h"
#include "collectives/ring.h"
#include "collectives/shared_copy.h"
#include "collectives/two_level.h"
#include "collectives/two_shot.h"

namespace tutti {
namespace {

constexpr std::uint16_t kHostOf[] = {0, 0, 1, 1, 1, 0, 1, 1};
constexpr std::uint16_t kByHost[] = {0, 1, 5, 2, 3, 4, 6, 7};
constexpr std::uint16_t kHostFirst[] = {0, 3, 8};
constexpr Layout kLayout{8, 0, 2, kHostOf, kByHost, kHostFirst};

// All steps of all ranks.
template <class Generator>
constexpr int steps_in_all() {
  int count = 0;
  for (Layout layout = kLayout; layout.rank < layout.ranks; ++layout.rank) {
    for (int index = 0; index < Generator::steps(layout, 3); ++index) {
      const Step step = Generator::step(layout, 3, index);
      count += receives(step) || sends(step) || stores(step);
    }
  }
  return count;
}

// What is a constant expression allocates nothing, throws nothing, and keeps no state: fit for a device, whether or
// not a compiler for one is here.
template <class... Generators>
constexpr int fit_for_devices() {
  static_assert(((steps_in_all<Generators>() > 0) && ...));
  return sizeof...(Generators);
}

TEST(Generators, AreConstantExpressions) {
  constexpr int kGenerators = fit_for_devices<
      BinomialBroadcast, BinomialGather, BinomialReduce, BinomialScatter, BruckAllGather, BruckAllToAll, ChainBroadcast,
      ChainReduce, DisseminationBarrier, DoubleTreeAllReduce, HalvingDoublingAllReduce, RecursiveHalvingReduceScatter,
      HierarchicalAllReduce, HierarchicalAllGather, HierarchicalReduceScatter, HierarchicalBroadcast,
      HierarchicalReduce, HierarchicalBarrier, OneShotAllReduce, OneShotAllGather, OneShotBroadcast, OneShotReduce,
      OneShotGather, OneShotScatter, OneShotAllToAll, OneShotBarrier, PairwiseAllToAll, PatAllGather, PatReduceScatter,
      SharedCopyBroadcast, RecursiveDoublingAllReduce, RecursiveDoublingAllGather, RingAllReduce, RingAllGather,
      RingReduceScatter, TwoShotAllReduce, TwoShotReduceScatter, TwoShotBroadcast, TwoLevel<HierarchicalAllReduce>,
      TwoLevel<HierarchicalAllGather>, TwoLevel<HierarchicalReduceScatter>, TwoLevel<HierarchicalBroadcast>,
      TwoLevel<HierarchicalReduce>, TwoLevel<HierarchicalBarrier>>();
  const auto own_steps = [](const Algorithm& row) { return !is_vector(row.collective); };  // the others share them
  EXPECT_EQ(std::count_if(algorithms().begin(), algorithms().end(), own_steps), kGenerators)
      << "a row is missing in this test";
}

}  // namespace
}  // namespace tutti
