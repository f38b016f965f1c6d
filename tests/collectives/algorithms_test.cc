#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/cost_model.h"
#include "collectives/layouts.h"
#include "collectives/registry.h"
#include "schedule/placement.h"
#include "schedule/verifier.h"

namespace tutti {
namespace {

std::set<int> roots(const Algorithm& algorithm, int ranks) {
  if (!is_rooted(algorithm.collective)) return {0};
  return {0, ranks > 1 ? 1 : 0, ranks - 1};
}

// A row with less to work with than it says it needs.
const Algorithm* stinted_row = nullptr;
int stinted_slots = 0;
int stinted_window = 0;
Chunking stinted_chunking(const Layout& layout) {
  Chunking chunking = stinted_row->chunking(layout);
  chunking.slot_chunks -= stinted_slots;
  chunking.window -= stinted_window;
  return chunking;
}
Verdict verify_stinted(const Algorithm& row, const Placement& placement, int slots, int window) {
  stinted_row = &row;
  stinted_slots = slots;
  stinted_window = window;
  Algorithm less = row;
  less.chunking = stinted_chunking;
  return verify(less, placement, 0);
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

// Larger numbers of ranks: tutti verify, which is a test too.
TEST_P(EveryAlgorithm, IsRightOnOneHostAndOnSeveralEvenAndUneven) {
  const Algorithm& algorithm = GetParam();
  int verified = 0;
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (const Placement& placement : placements(ranks)) {
      if (!algorithm.applies(placement.layout(0))) continue;
      for (const int root : roots(algorithm, ranks)) {
        const Verdict verdict = verify(algorithm, placement, root);
        ASSERT_TRUE(verdict.right) << ranks << " ranks on " << placement.hosts() << " hosts, root " << root << ": "
                                   << verdict.counterexample;
        ++verified;
      }
    }
  }
  const int fewest = algorithm.name == "shared_copy" ? 4 : 21;  // two ranks, either of them the root
  EXPECT_GE(verified, fewest);
}

TEST_P(EveryAlgorithm, ClaimsEveryReadThatIsOnePieceOfMemory) {
  const Algorithm& algorithm = GetParam();
  // Some of what these send lies in several pieces.
  const std::set<std::pair<Collective, std::string_view>> in_pieces = {{Collective::kAllGather, "bruck"},
                                                                       {Collective::kScatter, "binomial"}};
  for (const int ranks : {2, 5, 8}) {
    for (const Placement& placement : placements(ranks)) {
      if (!algorithm.applies(placement.layout(0))) continue;
      for (const int root : roots(algorithm, ranks)) {
        const Verdict verdict = verify(algorithm, placement, root);
        if (!in_pieces.contains({algorithm.collective, algorithm.name})) {
          EXPECT_EQ(verdict.claimable_reads, 0u) << verdict.claimable_example;
        }
      }
    }
  }
}

TEST_P(EveryAlgorithm, CostsTheSameForEveryRankAndInProportionToBytes) {
  const Algorithm& algorithm = GetParam();
  for (const int ranks : {1, 2, 6, 16}) {
    for (const Placement& placement : placements(ranks)) {
      if (!algorithm.applies(placement.layout(0))) continue;
      const Cost one = cost_of(algorithm, placement.layout(0), 1000);
      const Cost two = cost_of(algorithm, placement.layout(ranks - 1), 3000);
      EXPECT_NEAR(two.across.bytes, 3 * one.across.bytes, 1e-6);
      EXPECT_EQ(two.across.hops, one.across.hops);
      EXPECT_EQ(two.across.messages, one.across.messages);
      EXPECT_EQ(one.across.hops > 0, placement.groups() > 1);
      EXPECT_NEAR(two.local.bytes, 3 * one.local.bytes, 1e-6);
      EXPECT_NEAR(two.remote.bytes, 3 * one.remote.bytes, 1e-6);
      EXPECT_NEAR(two.copied_bytes, 3 * one.copied_bytes, 1e-6);
      EXPECT_NEAR(two.reduced_bytes, 3 * one.reduced_bytes, 1e-6);
      EXPECT_EQ(two.local.hops, one.local.hops);
      EXPECT_EQ(two.remote.hops, one.remote.hops);
      EXPECT_EQ(two.local.messages, one.local.messages);
      EXPECT_EQ(two.remote.messages, one.remote.messages);
      EXPECT_EQ(two.steps, one.steps);
      if (placement.hosts() == 1) {
        EXPECT_EQ(one.remote.hops, 0);
        EXPECT_EQ(one.remote.bytes, 0);
        EXPECT_EQ(one.remote.messages, 0);
      } else {
        EXPECT_GT(one.remote.hops, 0);
      }
      if (placement.hosts() == ranks) {
        EXPECT_EQ(one.local.bytes, 0);
      }
      const Chunking first = algorithm.chunking(placement.layout(0));
      const Chunking last = algorithm.chunking(placement.layout(ranks - 1));
      EXPECT_EQ(first.chunks, last.chunks);
      EXPECT_EQ(first.slot_chunks, last.slot_chunks);
      EXPECT_EQ(first.scratch_chunks, last.scratch_chunks);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& info) {
                           return std::string(name(info.param.collective)) + "_" + std::string(info.param.name);
                         });

// On which a row applies, if it does anywhere.
Placement placement_for(const Algorithm& row, int ranks, int parts) {
  if (row.condition == "several hosts") return even_placement(ranks, parts);
  return row.name == "two_level" ? grouped_placement(ranks, parts) : Placement(ranks);
}

// Only where the need does not depend on root, place or host.
TEST(Chunking, StatesTheLeastNumberOfSlots) {
  int checked = 0;
  for (const Algorithm& row : algorithms()) {
    const Placement placement = placement_for(row, 16, 4);
    if (row.chunking(placement.layout(0)).slot_chunks == 1) continue;
    EXPECT_TRUE(verify_stinted(row, placement, 0, 0).right);
    EXPECT_FALSE(verify_stinted(row, placement, 1, 0).right) << name(row.collective) << " " << row.name;
    ++checked;
  }
  EXPECT_GT(checked, 10);
}

TEST(Chunking, StatesAWindowOfTwoOnlyWhereOneDeadlocks) {
  int checked = 0;
  for (const Algorithm& row : algorithms()) {
    const Placement placement = placement_for(row, 14, 2);
    if (!row.applies(placement.layout(0)) || row.chunking(placement.layout(0)).window == 1) continue;
    const Verdict verdict = verify_stinted(row, placement, 0, 1);
    EXPECT_NE(verdict.counterexample.find("deadlock"), std::string::npos) << name(row.collective) << " " << row.name;
    ++checked;
  }
  EXPECT_GT(checked, 4);
}

TEST(Registry, GroupsRowsByCollectiveWithoutRepeatingAName) {
  std::set<std::pair<int, std::string_view>> seen;
  int last = 0;
  for (const Algorithm& row : algorithms()) {
    const int collective = static_cast<int>(row.collective);
    EXPECT_GE(collective, last);
    last = collective;
    EXPECT_TRUE(seen.emplace(collective, row.name).second) << row.name;
    EXPECT_EQ(find_algorithm(row.collective, row.name), &row);
  }
  EXPECT_EQ(find_algorithm(Collective::kAllReduce, "pairwise"), nullptr);
}

TEST(Registry, HasAnAlgorithmForEveryCollectiveAndLayoutAlsoWhenReproducible) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const Placement& placement : placements(ranks)) {
      std::set<Collective> served;
      for (const Algorithm& row : algorithms()) {
        if (row.applies(placement.layout(0)) && (row.reproducible || !reduces(row.collective))) {
          served.insert(row.collective);
        }
      }
      EXPECT_EQ(served.size(), static_cast<std::size_t>(kCollectives));
    }
  }
}

TEST(Rings, CrossEachWireBetweenHostsOnce) {
  const Placement placement(std::vector<int>{0, 1, 0, 2, 1, 0, 2});
  for (const std::string_view name : {"ring", "chain"}) {
    for (const Algorithm& row : algorithms()) {
      if (row.name != name) continue;
      std::set<std::pair<int, int>> crossings;
      for (int rank = 0; rank < placement.ranks(); ++rank) {
        const Layout layout = placement.layout(rank);
        for (int i = 0; i < row.steps(layout, 0); ++i) {
          const Step step = row.step(layout, 0, i);
          if (sends(step) && host_of(layout, step.to) != host_of(layout, rank)) crossings.emplace(rank, step.to);
        }
      }
      EXPECT_EQ(crossings.size(), name == "ring" ? 3u : 2u) << tutti::name(row.collective);
    }
  }
}

TEST(Hierarchical, AllGatherSendsABlockToEveryOtherHostOnce) {
  const Placement placement(std::vector<int>{0, 0, 0, 1, 1, 2, 2, 2, 2});
  const Algorithm& row = *find_algorithm(Collective::kAllGather, "hierarchical");
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    const Layout layout = placement.layout(rank);
    std::multiset<int> hosts;
    for (int i = 0; i < row.steps(layout, 0); ++i) {
      const Step step = row.step(layout, 0, i);
      if (sends(step) && step.to < kFirstNamedSet) hosts.insert(host_of(layout, step.to));
    }
    std::multiset<int> others = {0, 1, 2};
    others.erase(host_of(layout, rank));
    EXPECT_EQ(hosts, others) << "rank " << rank;
  }
}

}  // namespace
}  // namespace tutti
