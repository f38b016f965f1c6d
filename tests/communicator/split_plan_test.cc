// Who goes where in a split, without ranks.
#include "communicator/split_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti {
namespace {

// Short lists may come out in order by chance: 100 ranks are more than any sort treats specially.
TEST(SplitPlan, KeepsTheOrderOfRanksWithEqualKeys_E) {
  constexpr int kRanks = 100;
  std::vector<SplitWish> wishes(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    wishes[static_cast<std::size_t>(rank)].color = 0;
    wishes[static_cast<std::size_t>(rank)].key = rank % 3 == 0 ? 7 : 5;
    wishes[static_cast<std::size_t>(rank)].name = "part";
  }
  const SplitPlan plan(std::move(wishes), [](int rank) { return "rank " + std::to_string(rank); });
  const std::vector<int>& members = plan.members(0);
  ASSERT_EQ(members.size(), static_cast<std::size_t>(kRanks));
  std::vector<int> expected;
  for (const bool last : {false, true}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if ((rank % 3 == 0) == last) expected.push_back(rank);
    }
  }
  EXPECT_EQ(members, expected);
}

}  // namespace
}  // namespace tutti
