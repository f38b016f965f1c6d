#include "schedule/peer_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "schedule/placement.h"

namespace tutti {
namespace {

std::vector<int> members(const Layout& layout, PeerSet set) {
  std::vector<int> result;
  for_each_member(layout, set, [&result](int rank) { result.push_back(rank); });
  EXPECT_EQ(static_cast<int>(result.size()), set_size(layout, set));
  return result;
}

using Ranks = std::vector<int>;

TEST(Placement, NumbersHostsByTheirLowestRank) {
  const Placement placement(std::vector<int>{7, 3, 7, 9, 3});
  EXPECT_EQ(placement.hosts(), 3);
  const Layout layout = placement.layout(0);
  const int expected[] = {0, 1, 0, 2, 1};
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(host_of(layout, rank), expected[rank]);
  EXPECT_EQ(host_size(layout, 1), 2);
  EXPECT_EQ(rank_at(layout, 1, 0), 1);
  EXPECT_EQ(rank_at(layout, 1, 1), 4);
}

TEST(Placement, FindsThePlaceOfEveryRank) {
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 0, 0}, {1, 2, 1, 1, 2, 3, 1}, {4, 3, 2, 1, 0}}) {
    const Placement placement(hosts);
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      const Layout layout = placement.layout(rank);
      EXPECT_EQ(rank_at(layout, host_of(layout, rank), place_of(layout, rank)), rank);
    }
  }
}

TEST(Placement, SplitsRanksEvenlyOverHosts) {
  const Placement placement = even_placement(8, 3);
  ASSERT_EQ(placement.hosts(), 3);
  const Layout layout = placement.layout(0);
  EXPECT_EQ(host_size(layout, 0), 3);
  EXPECT_EQ(host_size(layout, 1), 3);
  EXPECT_EQ(host_size(layout, 2), 2);
  EXPECT_EQ(rank_at(layout, 2, 0), 6);
}

TEST(PeerSets, ARankIsASetByItself) {
  const Layout layout{4, 1, 1, nullptr, nullptr, nullptr};
  EXPECT_EQ(members(layout, 3), Ranks({3}));
  EXPECT_EQ(members(layout, kNobody), Ranks());
}

TEST(PeerSets, EveryoneIsAllButThisRankInRankOrder) {
  const Layout layout{4, 2, 1, nullptr, nullptr, nullptr};
  EXPECT_EQ(members(layout, kEveryone), Ranks({0, 1, 3}));
  EXPECT_EQ(members(layout, kHostPeers), Ranks({0, 1, 3}));
  EXPECT_EQ(members(layout, kRailPeers), Ranks());
}

TEST(PeerSets, HostAndRailPeersFollowThePlacement) {
  const Placement placement(std::vector<int>{0, 1, 0, 1, 0});
  EXPECT_EQ(members(placement.layout(2), kHostPeers), Ranks({0, 4}));
  EXPECT_EQ(members(placement.layout(2), kRailPeers), Ranks({3}));
  EXPECT_EQ(members(placement.layout(4), kRailPeers), Ranks()) << "the other host has no third place";
}

TEST(PeerSets, RailPeersAreInRankOrderEvenWhereHostsAreNot) {
  // Second places: rank 5 on host 0, rank 3 on host 1, rank 4 on host 2.
  const Placement placement(std::vector<int>{0, 1, 2, 1, 2, 0});
  EXPECT_EQ(members(placement.layout(5), kRailPeers), Ranks({3, 4}));
  EXPECT_EQ(members(placement.layout(3), kRailPeers), Ranks({4, 5}));
}

class DoubleTree : public testing::TestWithParam<Tree> {};

TEST_P(DoubleTree, ReachesEveryRankFromItsRoot) {
  for (int ranks = 1; ranks <= 130; ++ranks) {
    std::vector<int> reached = {tree_root(ranks, GetParam())};
    EXPECT_EQ(tree_parent(ranks, reached[0], GetParam()), -1);
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const TreeChildren children = tree_children(ranks, reached[i], GetParam());
      for (int c = 0; c < children.count; ++c) {
        EXPECT_EQ(tree_parent(ranks, children.ranks[c], GetParam()), reached[i]) << ranks;
        reached.push_back(children.ranks[c]);
      }
      if (children.count == 2) {
        EXPECT_LT(children.ranks[0], children.ranks[1]);
      }
      ASSERT_LE(reached.size(), static_cast<std::size_t>(ranks));
    }
    std::sort(reached.begin(), reached.end());
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(reached[rank], rank) << ranks;
  }
}

TEST_P(DoubleTree, IsAsDeepAsALogarithm) {
  for (int ranks = 2; ranks <= 1024; ranks *= 2) {
    for (int rank = 0; rank < ranks; ++rank) {
      int depth = 0;
      for (int at = rank; at >= 0; at = tree_parent(ranks, at, GetParam())) ++depth;
      EXPECT_LE(1 << (depth - 1), 2 * ranks);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Trees, DoubleTree, testing::Values(Tree::kFirst, Tree::kMirror));

TEST(DoubleTrees, NoRankIsInnerInBoth) {
  for (int ranks = 3; ranks <= 130; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      // The root has one child and sends half of what an inner rank sends: it may be inner in the other tree.
      const bool root = tree_parent(ranks, rank, Tree::kFirst) < 0 || tree_parent(ranks, rank, Tree::kMirror) < 0;
      const int first = tree_children(ranks, rank, Tree::kFirst).count;
      const int mirror = tree_children(ranks, rank, Tree::kMirror).count;
      EXPECT_TRUE(root || first == 0 || mirror == 0) << rank << " of " << ranks;
      EXPECT_TRUE(first > 0 || mirror > 0) << rank << " of " << ranks << " is a leaf twice";
    }
  }
}

TEST(PeerSets, TreeChildrenAreThoseOfTheDoubleTree) {
  const Layout layout{6, 4, 1, nullptr, nullptr, nullptr};
  EXPECT_EQ(members(layout, kTreeChildren), Ranks({2, 5}));
  const Layout mirrored{6, 1, 1, nullptr, nullptr, nullptr};  // label 4 of the mirror
  EXPECT_EQ(members(mirrored, kMirrorChildren), Ranks({0, 3}));
}

}  // namespace
}  // namespace tutti
