#include "collectives/cost_model.h"

#include <gtest/gtest.h>

#include "collectives/layouts.h"
#include "collectives/registry.h"

namespace tutti {
namespace {

constexpr CostParameters kRound{{100, 10, 1}, {1000, 50, 0.5}, 2, 4, 8};

double all_reduce_ns(const char* algorithm, const Placement& placement, double bytes) {
  const Algorithm& row = *find_algorithm(Collective::kAllReduce, algorithm);
  return predict(row.cost(placement.layout(0), bytes), {}, CostParameters{}).total();
}

TEST(CostModel, AddsUpLatencyHandlingBytesCopiesAndReductions) {
  Cost cost;
  cost.local = {2, 3, 1000};
  cost.remote = {1, 4, 500};
  cost.steps = 5;
  cost.copied_bytes = 800;
  cost.reduced_bytes = 1600;
  const Prediction prediction = predict(cost, {}, kRound);
  EXPECT_EQ(prediction.latency, 2 * 100 + 1 * 1000);
  EXPECT_EQ(prediction.handling, 3 * 10 + 4 * 50 + 5 * 2);
  EXPECT_EQ(prediction.local_bytes, 1000);
  EXPECT_EQ(prediction.remote_bytes, 1000);
  EXPECT_EQ(prediction.copies, 200);
  EXPECT_EQ(prediction.reductions, 200);
  EXPECT_EQ(prediction.total(), 1200 + 240 + 2000 + 400);
}

TEST(CostModel, PaysHopsInEveryRoundOfAChannelUnlessRoundsFlow) {
  Cost cost;
  cost.remote.hops = 3;
  cost.steps = 1;
  const Cut cut{8, 2, 64};
  EXPECT_EQ(predict(cost, cut, kRound).latency, 4 * 3000);
  EXPECT_EQ(predict(cost, cut, kRound).handling, 8 * 2);
  cost.flows = true;
  EXPECT_EQ(predict(cost, cut, kRound).latency, 3000);
}

TEST(CostModel, LetsARankTakeItsTurnBeforeEachHopWithinAHost) {
  EXPECT_EQ(turn_ns(1), 0);
  EXPECT_GT(turn_ns(4), turn_ns(2));
  Cost cost;
  cost.local.hops = 2;
  cost.across.hops = 1;
  cost.remote.hops = 1;
  CostParameters parameters = kRound;
  const double without = predict(cost, {}, parameters).latency;
  parameters.turn_ns = 5000;
  EXPECT_EQ(predict(cost, {}, parameters).latency, without + 3 * 5000);
}

TEST(CostModel, FillsAPipelineWithFirstChunks) {
  Cost cost;
  cost.local.bytes = 1000;
  cost.local.fill = 3;
  EXPECT_EQ(predict(cost, {4, 1, 250}, kRound).local_bytes, 1000 + 3 * 250);
}

// The published rules of thumb for 5 µs and 0.5 ns a byte: halving and doubling overtakes recursive doubling at about
// 40 KB on 4 hosts and 19 KB on 16.
TEST(CostModel, MeetsTheKnownCrossoverOfRecursiveDoublingAndHalving) {
  for (const auto& [hosts, bytes] : {std::pair{4, 40e3}, std::pair{16, 19e3}}) {
    const Placement placement = even_placement(hosts, hosts);
    EXPECT_LT(all_reduce_ns("recursive_doubling", placement, bytes / 2),
              all_reduce_ns("halving_doubling", placement, bytes / 2));
    EXPECT_GT(all_reduce_ns("recursive_doubling", placement, bytes * 2),
              all_reduce_ns("halving_doubling", placement, bytes * 2));
  }
}

TEST(CostModel, CountsTheRanksThatShareAWire) {
  const Placement apart = even_placement(8, 8);
  const Placement shared = even_placement(8, 2);
  const Algorithm& row = *find_algorithm(Collective::kAllReduce, "two_shot");
  // Alone on its host, a rank takes 7 slices twice; with four to a host, each of four takes 4 slices twice.
  EXPECT_DOUBLE_EQ(row.cost(apart.layout(0), 8000).remote.bytes, 14000);
  EXPECT_DOUBLE_EQ(row.cost(shared.layout(0), 8000).remote.bytes, 32000);
}

}  // namespace
}  // namespace tutti
