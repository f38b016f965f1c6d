#include "collectives/selector.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "collectives/layouts.h"
#include "collectives/registry.h"
#include "tutti/error.h"

namespace tutti {
namespace {

std::string_view chosen(const Selector& selector, Collective collective, std::size_t bytes) {
  return algorithms()[selector.choose(collective, bytes).algorithm].name;
}

SelectorOptions with_algorithm(const std::string& text) {
  SelectorOptions options;
  options.algorithm = text;
  return options;
}

// The message of the error that this setting causes; "" when it is accepted.
std::string complaint(const Placement& placement, const SelectorOptions& options) {
  try {
    const Selector selector(placement.layout(0), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting);
    return error.what();
  }
  return {};
}

bool says(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

std::vector<Placement> many_placements() {
  std::vector<Placement> result;
  for (const int ranks : {1, 2, 3, 8, 13, 64}) {
    for (Placement& placement : placements(ranks)) result.push_back(std::move(placement));
  }
  result.push_back(even_placement(64, 8));
  result.push_back(even_placement(512, 64));
  return result;
}

TEST(SizeClasses, AreTwoAnOctaveAndFoundByTheirSmallestSize) {
  EXPECT_EQ(Selector::size_class(0), 0u);
  EXPECT_EQ(Selector::size_class(1), 1u);
  for (std::size_t index = 0; index + 1 < Selector::kClasses; ++index) {
    EXPECT_EQ(Selector::size_class(Selector::class_bytes(index)), index);
    EXPECT_EQ(Selector::size_class(Selector::class_bytes(index + 1) - 1), index);
  }
  EXPECT_EQ(Selector::size_class(~std::size_t{0}), Selector::kClasses - 1);
}

// What an algorithm says of itself: a sum that a step stores or sends is finished there.
TEST(Selector, KnowsWhichAlgorithmsCombineAllAtOnce_F84) {
  for (const Algorithm& row : algorithms()) {
    if (!reduces(row.collective)) {
      EXPECT_FALSE(row.at_once) << row.name;
      continue;
    }
    bool stores_parts = false;
    for (const Placement& placement : many_placements()) {
      if (placement.ranks() < 2 || placement.ranks() > 64 || !row.applies(placement.layout(0))) continue;
      for (int rank = 0; rank < placement.ranks(); ++rank) {
        const Layout layout = placement.layout(rank);
        for (int i = 0; i < row.steps(layout, 0); ++i) {
          const Step step = row.step(layout, 0, i);
          const bool combines = step.kind == StepKind::kReduce || step.kind == StepKind::kReduceSend;
          if (combines && step.count > 0 && step.last == 0) stores_parts = true;
        }
      }
    }
    EXPECT_EQ(row.at_once, !stores_parts) << name(row.collective) << ' ' << row.name;
  }
}

TEST(Selector, TakesOneOfThemForCallsThatNeedIt_F84) {
  for (const Placement& placement : many_placements()) {
    for (const char* wanted : {"", "ring", "two_shot"}) {
      const Selector selector(placement.layout(0), with_algorithm(wanted));
      for (const Collective collective :
           {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter, Collective::kReduceScatterV}) {
        for (std::size_t index = 0; index < Selector::kClasses; ++index) {
          const Choice& choice = selector.choose(collective, Selector::class_bytes(index), true);
          ASSERT_NE(choice.algorithm, Choice::kNone);
          const Algorithm& taken = algorithms()[choice.algorithm];
          ASSERT_TRUE(taken.at_once && taken.collective == collective) << taken.name;
          if (wanted == std::string_view("two_shot") && collective == Collective::kAllReduce) {
            ASSERT_EQ(taken.name, "two_shot");
          }
        }
      }
    }
  }
}

TEST(Selector, HasNothingForThemWhereTheSlotRingIsTooSmall_F84) {
  SelectorOptions options;
  options.ring_bytes = 4096;
  const Placement placement(512);
  const Selector selector(placement.layout(0), options);
  EXPECT_EQ(selector.choose(Collective::kReduceScatter, 1 << 20, true).algorithm, Choice::kNone);
  EXPECT_NE(selector.choose(Collective::kReduceScatter, 1 << 20).algorithm, Choice::kNone);
}

TEST(Selector, ChoosesAlikeOnAllRanks) {
  const Placement placement(std::vector<int>{0, 1, 0, 2, 1, 0, 2});
  const Selector first(placement.layout(0), {});
  for (int rank = 1; rank < placement.ranks(); ++rank) {
    const Selector other(placement.layout(rank), {});
    for (int c = 0; c < kCollectives; ++c) {
      for (std::size_t index = 0; index < Selector::kClasses; ++index) {
        const Collective collective = static_cast<Collective>(c);
        const Choice& a = first.choose(collective, Selector::class_bytes(index));
        const Choice& b = other.choose(collective, Selector::class_bytes(index));
        EXPECT_EQ(a.algorithm, b.algorithm);
        EXPECT_EQ(a.channels, b.channels);
        EXPECT_EQ(a.chunk_bytes, b.chunk_bytes);
      }
    }
  }
}

TEST(Selector, ChoosesOnlyWhatAppliesAndFitsTheSlotRing) {
  for (const Placement& placement : many_placements()) {
    for (const std::size_t ring : {std::size_t{64} << 10, std::size_t{2} << 20}) {
      SelectorOptions options;
      options.ring_bytes = ring;
      options.channels = 2;
      const Layout layout = placement.layout(0);
      const Selector selector(layout, options);
      for (int c = 0; c < kCollectives; ++c) {
        for (std::size_t index = 0; index < Selector::kClasses; ++index) {
          const Choice& choice = selector.choose(static_cast<Collective>(c), Selector::class_bytes(index));
          const Algorithm& row = algorithms()[choice.algorithm];
          ASSERT_EQ(row.collective, static_cast<Collective>(c));
          ASSERT_TRUE(row.applies(layout));
          ASSERT_GE(choice.chunk_bytes, 64u);
          ASSERT_EQ(choice.chunk_bytes % 64, 0u);
          ASSERT_LE(2 * static_cast<std::size_t>(row.chunking(layout).slot_chunks) * choice.chunk_bytes, ring);
          ASSERT_LE(choice.channels, placement.hosts() > 1 ? 2 : 1);
        }
      }
    }
  }
}

TEST(Selector, PredictsThatMoreBytesTakeLonger) {
  for (const Placement& placement : many_placements()) {
    const Selector selector(placement.layout(0), {});
    for (int c = 0; c < kCollectives; ++c) {
      double last = 0;
      for (std::size_t index = 0; index < Selector::kClasses; ++index) {
        const auto candidates = selector.explain(static_cast<Collective>(c), Selector::class_bytes(index));
        ASSERT_TRUE(candidates.front().chosen);
        const double time = candidates.front().prediction.total();
        // Choices within a tie may take a little longer than the best.
        EXPECT_GE(time * 1.06, last) << name(static_cast<Collective>(c)) << " on " << placement.ranks() << " ranks";
        last = time;
      }
    }
  }
}

TEST(Selector, SlicesLargeReductionsAndNotTheSmallest) {
  const Placement two(2);
  const Selector selector(two.layout(0), {});
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 8), "one_shot");
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 1 << 20), "two_shot");
  EXPECT_EQ(chosen(selector, Collective::kBarrier, 0), "one_shot");

  const Placement sixteen(16);
  const Selector wider(sixteen.layout(0), {});
  EXPECT_NE(chosen(wider, Collective::kAllReduce, 16 << 10), "one_shot");
}

TEST(Selector, SharesTheCopiesOfLongBroadcastsBetweenTwoRanksOfAHost) {
  const Placement two(2);
  const Selector selector(two.layout(0), {});
  EXPECT_EQ(chosen(selector, Collective::kBroadcast, 4096), "one_shot");
  EXPECT_EQ(chosen(selector, Collective::kBroadcast, 256 << 10), "shared_copy");
  EXPECT_EQ(chosen(selector, Collective::kBroadcast, 64 << 20), "shared_copy");
  for (const Placement& placement : {Placement(3), even_placement(2, 2)}) {
    EXPECT_NE(chosen(Selector(placement.layout(0), {}), Collective::kBroadcast, 1 << 20), "shared_copy");
  }
  EXPECT_EQ(chosen(Selector(two.layout(0), with_algorithm("broadcast:one_shot")), Collective::kBroadcast, 1 << 20),
            "one_shot");
}

TEST(Selector, TakesFewStepsWhereRanksTakeTurnsOnAHardwareThread) {
  const Placement placement(8);
  SelectorOptions options;
  const Selector alone(placement.layout(0), options);
  EXPECT_EQ(chosen(alone, Collective::kAllReduce, 16 << 10), "two_shot");
  options.parameters.turn_ns = turn_ns(4);
  const Selector sharing(placement.layout(0), options);
  EXPECT_EQ(chosen(sharing, Collective::kAllReduce, 16 << 10), "one_shot");
  EXPECT_EQ(chosen(sharing, Collective::kAllReduce, 1 << 20), "two_shot");
  EXPECT_NE(sharing.hash(), alone.hash());
}

TEST(Selector, GoesThroughHostsOnceWhereManyRanksShareThem) {
  const Placement placement = even_placement(64, 4);
  const Selector selector(placement.layout(0), {});
  for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{64} << 20}) {
    EXPECT_EQ(chosen(selector, Collective::kAllReduce, bytes), "hierarchical");
    EXPECT_EQ(chosen(selector, Collective::kAllGather, bytes), "hierarchical");
  }
  EXPECT_EQ(chosen(selector, Collective::kBarrier, 0), "hierarchical");
}

TEST(Selector, UsesSecondChannelOnlyBetweenHostsAndForMoreThanOneRound) {
  SelectorOptions options;
  options.channels = 2;
  const Placement near(2);
  const Placement apart = even_placement(2, 2);
  EXPECT_EQ(Selector(near.layout(0), options).choose(Collective::kAllReduce, 64 << 20).channels, 1);
  EXPECT_EQ(Selector(apart.layout(0), options).choose(Collective::kAllReduce, 64 << 20).channels, 2);
  EXPECT_EQ(Selector(apart.layout(0), options).choose(Collective::kAllReduce, 8).channels, 1);
  options.all_channels = true;
  EXPECT_EQ(Selector(near.layout(0), options).choose(Collective::kAllReduce, 64 << 20).channels, 2);
  options.channels = 1;
  EXPECT_EQ(Selector(apart.layout(0), options).choose(Collective::kAllReduce, 64 << 20).channels, 1);
}

TEST(Selector, KeepsChunksAsSmallAsAsked) {
  SelectorOptions options;
  options.chunk_bytes = 4096;
  const Placement placement(4);
  const Selector selector(placement.layout(0), options);
  EXPECT_EQ(selector.choose(Collective::kAllReduce, 1 << 20).chunk_bytes, 4096u);
}

// No size overflows on the way from bytes to rounds.
TEST(Selector, CutsCallsBeyond32Bits_F69) {
  const Placement placement(2048);
  const Selector selector(placement.layout(0), {});
  for (const std::size_t count : {(std::size_t{1} << 31) + 3, std::size_t{1} << 33}) {
    const std::size_t bytes = 2048 * count;
    for (const Selector::Candidate& candidate : selector.explain(Collective::kAllGather, bytes)) {
      if (!candidate.possible) continue;
      const double chunks = candidate.algorithm->chunking(placement.layout(0)).chunks;
      const double moved = candidate.rounds * chunks * static_cast<double>(candidate.choice.chunk_bytes);
      EXPECT_GE(moved, static_cast<double>(count)) << candidate.algorithm->name;
      EXPECT_LT(moved, static_cast<double>(count) * 1.01) << candidate.algorithm->name;
    }
    EXPECT_GT(selector.choose(Collective::kAllGather, bytes).chunk_bytes, 0u);
  }
}

// The ranks of an all_to_all_v know different sizes.
TEST(Selector, ChoosesAllToAllVWithoutItsSize) {
  for (const Placement& placement : many_placements()) {
    SelectorOptions options;
    options.channels = 2;
    const Selector selector(placement.layout(0), options);
    const Choice& first = selector.choose(Collective::kAllToAllV, 0);
    for (std::size_t index = 0; index < Selector::kClasses; ++index) {
      const Choice& choice = selector.choose(Collective::kAllToAllV, Selector::class_bytes(index));
      EXPECT_EQ(choice.algorithm, first.algorithm);
      EXPECT_EQ(choice.channels, first.channels);
      EXPECT_EQ(choice.chunk_bytes, first.chunk_bytes);
    }
  }
}

TEST(Selector, TakesOnlyTheReproducibleTreeWhereAskedTo) {
  SelectorOptions options;
  options.reproducible = true;
  for (const Placement& placement : many_placements()) {
    const Selector selector(placement.layout(0), options);
    for (int c = 0; c < kCollectives; ++c) {
      if (!reduces(static_cast<Collective>(c))) continue;
      for (std::size_t index = 0; index < Selector::kClasses; ++index) {
        const Choice& choice = selector.choose(static_cast<Collective>(c), Selector::class_bytes(index));
        EXPECT_TRUE(algorithms()[choice.algorithm].reproducible);
      }
    }
  }
}

// 32 ranks in two packages, links between them eight times as far: what crosses them counts.
TEST(Selector, TakesTwoLevelsWhereGroupsAreFarApartAndNeverWithoutGroups) {
  SelectorOptions options;
  options.parameters.across = {500, 15, 4};
  const Placement grouped = grouped_placement(32, 2);
  const Selector selector(grouped.layout(0), options);
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 64 << 10), "two_level");
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 16 << 20), "two_level");
  const Selector flat(Placement(32).layout(0), options);
  for (int c = 0; c < kCollectives; ++c) {
    for (std::size_t index = 0; index < Selector::kClasses; ++index) {
      EXPECT_NE(chosen(flat, static_cast<Collective>(c), Selector::class_bytes(index)), "two_level");
    }
  }
}

TEST(Selector, ExplainsEveryAlgorithmOfTheCollective) {
  const Placement placement(6);
  const Selector selector(placement.layout(0), {});
  const auto candidates = selector.explain(Collective::kAllGather, 64 << 10);
  int rows = 0;
  for (const Algorithm& row : algorithms()) rows += row.collective == Collective::kAllGather;
  ASSERT_EQ(candidates.size(), static_cast<std::size_t>(rows));
  EXPECT_EQ(candidates.front().algorithm->name, chosen(selector, Collective::kAllGather, 64 << 10));
  double last = 0;
  for (const Selector::Candidate& candidate : candidates) {
    EXPECT_FALSE(candidate.reason.empty());
    if (candidate.algorithm->name == "hierarchical") {
      EXPECT_EQ(candidate.reason, "needs several hosts");
    }
    if (candidate.algorithm->name == "recursive_doubling") {
      EXPECT_EQ(candidate.reason, "needs a power of two of ranks");
    }
    if (!candidate.possible || candidate.chosen) continue;
    EXPECT_GE(candidate.prediction.total(), last);
    last = candidate.prediction.total();
  }
}

TEST(Override, NamesAnAlgorithmWhereverThereIsOne) {
  const Placement placement(6);
  const Selector selector(placement.layout(0), with_algorithm("ring"));
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{1} << 30}) {
    EXPECT_EQ(chosen(selector, Collective::kAllReduce, bytes), "ring");
    EXPECT_EQ(chosen(selector, Collective::kAllGather, bytes), "ring");
  }
  EXPECT_EQ(chosen(selector, Collective::kBroadcast, 8), "one_shot");  // has no ring: its own choice
  EXPECT_EQ(selector.explain(Collective::kAllReduce, 8).front().reason, "asked for by TUTTI_ALGO");
}

TEST(Override, NamesAnAlgorithmForEachCollective) {
  const Placement placement(6);
  const Selector selector(placement.layout(0), with_algorithm(" all_reduce : double_tree ;; all_gather:pat; "));
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 8), "double_tree");
  EXPECT_EQ(chosen(selector, Collective::kAllGather, 8), "pat");
}

TEST(Override, LeavesCollectivesAloneWhereTheAlgorithmDoesNotApply) {
  const Placement placement(6);  // no power of two: recursive_doubling has an all_reduce, but no all_gather
  const Selector selector(placement.layout(0), with_algorithm("recursive_doubling"));
  EXPECT_EQ(chosen(selector, Collective::kAllReduce, 1 << 20), "recursive_doubling");
  EXPECT_NE(chosen(selector, Collective::kAllGather, 1 << 20), "recursive_doubling");
}

TEST(Override, RefusesTheImpossibleAndSaysWhatIsPossible) {
  const Placement placement(6);
  const std::string unknown = complaint(placement, with_algorithm("all_reduce:rng"));
  EXPECT_TRUE(says(unknown, "TUTTI_ALGO=\"all_reduce:rng\"")) << unknown;
  EXPECT_TRUE(says(unknown, "no algorithm \"rng\" for all_reduce")) << unknown;
  EXPECT_TRUE(says(unknown, "one_shot, two_shot, ring")) << unknown;
  EXPECT_FALSE(says(unknown, "hierarchical")) << unknown;  // not on one host

  const std::string collective = complaint(placement, with_algorithm("all_redce:ring"));
  EXPECT_TRUE(says(collective, "\"all_redce\" is no collective")) << collective;
  EXPECT_TRUE(says(collective, "all_reduce, all_gather")) << collective;

  const std::string hosts = complaint(placement, with_algorithm("hierarchical"));
  EXPECT_TRUE(says(hosts, "\"hierarchical\" needs several hosts")) << hosts;
  const std::string power = complaint(placement, with_algorithm("all_gather:recursive_doubling"));
  EXPECT_TRUE(says(power, "needs a power of two of ranks")) << power;

  SelectorOptions reproducible = with_algorithm("all_reduce:ring");
  reproducible.reproducible = true;
  const std::string bits = complaint(placement, reproducible);
  EXPECT_TRUE(says(bits, "not asked to be reproducible")) << bits;
  EXPECT_TRUE(says(bits, "halving_doubling")) << bits;
  EXPECT_FALSE(says(bits, "double_tree")) << bits;
}

TEST(Override, RefusesARingTooSmallForAnything) {
  SelectorOptions options;
  options.ring_bytes = 64;
  const std::string text = complaint(Placement(4), options);
  EXPECT_TRUE(says(text, "TUTTI_RING_BYTES")) << text;
}

}  // namespace
}  // namespace tutti
