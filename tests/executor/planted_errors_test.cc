// A call fails where a transport makes an error; each of them is planted and must be found.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>

#include "collectives/registry.h"
#include "executor/series.h"

namespace tutti {
namespace {

using Break = FaultPlan::Break;
using Bug = FaultPlan::Bug;

struct Planted {
  const char* name;
  Bug bug;
  Collective collective = Collective::kAllReduce;
  const char* algorithm = "ring";
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class PlantedError : public testing::TestWithParam<Planted> {};

TEST_P(PlantedError, OfATransportIsFound) {
  std::mt19937_64 random(given_seed());
  const Algorithm* algorithm = find_algorithm(GetParam().collective, GetParam().algorithm);
  int struck = 0;
  int found = 0;
  for (int trial = 0; trial < 200 && (struck < 10 || found < struck); ++trial) {
    World world(3, options_of(kFabrics[0], 3, 2));
    FaultPlan plan = FaultPlan::random(random(), 20'000);
    plan.bug = GetParam().bug;
    plan.bug_at = 1 + random() % 2;
    plan.ignored_post_percent = 0;
    if (plan.bug == Bug::kWritesAfterWithdraw || plan.bug == Bug::kForgetsToFail) {
      plan.breaks = Break::kKilled;
      plan.breaks_at = random() % 60;
    }
    if (plan.bug == Bug::kWrittenEarly) plan.most_bytes = 500;
    world.faults().set_plan(plan);
    CallSetup setup;
    setup.algorithm = algorithm;
    setup.count = 3 * 2 * 12 * 1024;
    setup.chunk_bytes = 40 * 1024;
    setup.channels = 2;
    Series series(world, {setup, setup});
    series.run(random());
    std::string problem = series.problem();
    if (problem.empty() && !world.faults().broken() && !settle(world)) problem = "credit was lost";
    if (!world.faults().bug_struck()) {
      ASSERT_EQ(problem, "") << plan.text();
      continue;
    }
    ++struck;
    if (!problem.empty()) ++found;
    if (found == 1 && !problem.empty()) fmt::print("found: {}\n", problem);
  }
  EXPECT_GT(struck, 0) << "it never showed";
  // Some leave nothing to see: whoever was not told may have had its result already.
  EXPECT_GT(found, 0) << "it showed " << struck << " times";
}

INSTANTIATE_TEST_SUITE_P(
    Errors, PlantedError,
    testing::Values(Planted{"SwapsMessages", Bug::kSwapsMessages}, Planted{"LosesCredit", Bug::kLosesCredit},
                    Planted{"PublishesEarly", Bug::kPublishesEarly},
                    Planted{"WrittenEarly", Bug::kWrittenEarly, Collective::kBroadcast, "chain"},
                    Planted{"WritesAfterWithdraw", Bug::kWritesAfterWithdraw, Collective::kAllGather, "ring"},
                    Planted{"ForgetsToFail", Bug::kForgetsToFail}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tutti
