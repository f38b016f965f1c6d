#include "communicator/distances.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "communicator/probing.h"
#include "support/ranks.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr ProbedCore kCore{6, 40};
constexpr CpuPlace kNoPlace{};

ProbedLink hop(std::uint32_t to, double ns) { return {.member = to, .hop_ns = ns}; }

// Ranks 0 and 1 share a cache, 2 has another one, 3 is in the other package.
std::vector<Distances::Rank> four_ranks() {
  return {{0, {0, 0, 0}, kCore, {}}, {0, {0, 0, 0}, kCore, {}}, {0, {0, 0, 2}, kCore, {}}, {0, {8, 8, 8}, kCore, {}}};
}

TEST(Distances, AreHwlocsWhereNothingWasMeasured) {
  const Distances distances(four_ranks());
  EXPECT_EQ(distances.link_class(0, 1), LinkClass::kNear);
  EXPECT_EQ(distances.link_class(1, 2), LinkClass::kFar);
  EXPECT_EQ(distances.link_class(3, 2), LinkClass::kSocket);
  EXPECT_EQ(distances.hop_ns(0, 1), 0);
  EXPECT_EQ(distances.measured().links[0].links, 1);
  EXPECT_EQ(distances.measured().links[1].links, 1);
  EXPECT_EQ(distances.measured().links[3].links, 2) << "places are looked at, not pairs of ranks";
}

TEST(Distances, AreCorrectedByWhatWasMeasured) {
  std::vector<Distances::Rank> ranks = four_ranks();
  ranks[0].links = {hop(1, 240), hop(2, 50), hop(3, 400)};  // the caches are not where hwloc believes
  const Distances distances(ranks);
  EXPECT_EQ(distances.link_class(0, 1), LinkClass::kFar);
  EXPECT_EQ(distances.link_class(1, 0), LinkClass::kFar);
  EXPECT_EQ(distances.link_class(0, 2), LinkClass::kNear);
  EXPECT_EQ(distances.link_class(0, 3), LinkClass::kSocket);
  EXPECT_EQ(distances.hop_ns(2, 0), 50);
  EXPECT_EQ(distances.measured().links[0].hop_ns, 50);
  EXPECT_EQ(distances.measured().links[3].hop_ns, 400);
}

// The yardstick is the machine's own: a slow one is not far.
TEST(Distances, AreNearInProportionToTheCoresOwnSpeed) {
  std::vector<Distances::Rank> ranks = four_ranks();
  for (Distances::Rank& rank : ranks) rank.core.line_ns = 30;
  ranks[0].links = {hop(1, 240)};
  EXPECT_EQ(Distances(ranks).link_class(0, 1), LinkClass::kNear);
}

TEST(Distances, OfRanksThatAreNotBoundAreWhatWasMeasured) {
  std::vector<Distances::Rank> ranks(3, Distances::Rank{0, kNoPlace, kCore, {}});
  ranks[0].links = {hop(1, 50), hop(2, 230)};
  const Distances distances(ranks);
  EXPECT_EQ(distances.link_class(0, 1), LinkClass::kNear);
  EXPECT_EQ(distances.link_class(0, 2), LinkClass::kFar);
  EXPECT_EQ(distances.link_class(1, 2), std::nullopt);
}

TEST(Distances, OfSomeOfTheRanksAreThoseOfAll) {
  std::vector<Distances::Rank> ranks = four_ranks();
  ranks[0].links = {hop(1, 50), hop(3, 400)};
  ranks[1].links = {hop(3, 420)};
  const std::array members = {3, 1};
  const Distances distances = Distances(ranks).among(members);
  EXPECT_EQ(distances.ranks().size(), 2u);
  EXPECT_EQ(distances.hop_ns(0, 1), 420);
  EXPECT_EQ(distances.link_class(0, 1), LinkClass::kSocket);
  EXPECT_EQ(distances.measured().links[0].links, 0) << "the near pair is not among them";
}

TEST(Distances, TravelBetweenRanks) {
  LinkProbeResult result;
  result.core = {6.25, 41.5};
  result.links = {{1, 57, 12.25, 0, 0}, {0, 0, 0, 3.5, 9.75}};
  const std::array members = {4, 6};  // ranks of this host
  Distances::Rank rank;
  decode_measurements(encode_measurements(result, members), 7, rank);
  EXPECT_EQ(rank.core.line_ns, 6.25);
  EXPECT_EQ(rank.core.copy_rate, 41.5);
  ASSERT_EQ(rank.links.size(), 2u);
  EXPECT_EQ(rank.links[0].member, 6u);
  EXPECT_EQ(rank.links[0].hop_ns, 57);
  EXPECT_EQ(rank.links[0].read_rate, 12.25);
  EXPECT_EQ(rank.links[1].member, 4u);
  EXPECT_EQ(rank.links[1].stream_rate, 9.75);
}

TEST(Distances, RefuseWhatCannotHaveBeenMeasured) {
  LinkProbeResult result;
  result.links = {hop(0, 50)};
  const std::array members = {9};
  const auto bytes = encode_measurements(result, members);
  Distances::Rank rank;
  EXPECT_THROW(decode_measurements(bytes, 9, rank), Error);
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    Distances::Rank cut;
    EXPECT_THROW(decode_measurements(std::span(bytes).first(length), 10, cut), Error) << length;
  }
}

TEST(Distances, AreRatedBetweenOnePairOfEachClass) {
  const std::array<CpuPlace, 5> places = {CpuPlace{0, 0, 0}, {0, 0, 0}, {0, 0, 2}, {8, 8, 8}, kNoPlace};
  const auto pairs = rated_pairs(places);
  EXPECT_EQ(pairs, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}, {0, 2}, {0, 3}, {0, 4}}));
}

TEST(Probing, IsDoneOnlyWhereEveryRankOfAHostHasAHardwareThread) {
  const std::vector<int> both = {0, 1};
  const std::vector<int> one = {1};
  const std::array<RankFacts, 3> facts = {RankFacts{both, {}}, {both, {}}, {one, {}}};
  EXPECT_EQ(ranks_per_thread(std::array{0, 1}, facts), 1);
  EXPECT_EQ(ranks_per_thread(std::array{0, 2}, facts), 1);
  EXPECT_EQ(ranks_per_thread(std::array{0, 1, 2}, facts), 2);
  HostGroup group;
  group.leader_of = {0, 0, 2};
  EXPECT_EQ(most_ranks_per_thread(group, facts), 1);
  group.leader_of = {0, 0, 0};
  EXPECT_EQ(most_ranks_per_thread(group, facts), 2);
}

// Ranks on a machine, each bound to the hardware threads named.
Distances on(const std::string& machine, const std::vector<std::vector<int>>& threads) {
  const Machine made = synthetic_machine(machine);
  std::vector<Distances::Rank> ranks;
  for (const auto& usable : threads) ranks.push_back({0, place_of_threads(made, usable), {}, {}});
  return Distances(ranks);
}

TEST(Groups, AreTheRanksOfEachNumaNode) {
  const char* const machine = "pack:2 numa:2 l3:2 core:4 pu:1";  // 32 hardware threads, 8 in each node
  const auto grouping = on(machine, {{0}, {9}, {1}, {5}, {31}, {8, 12}}).grouping();
  EXPECT_EQ(grouping.group_of, (std::vector<int>{0, 8, 0, 0, 24, 8}));
  EXPECT_EQ(grouping.within, LinkClass::kFar) << "a node has two caches";
  EXPECT_EQ(on(machine, {{0}, {1}, {8}}).grouping().within, LinkClass::kNear);
  EXPECT_EQ(on(machine, {{0}, {1}, {8}}).measured().links[static_cast<int>(LinkClass::kNuma)].links, 1);
}

TEST(Groups, AreTheRanksOfEachCacheWhereThereIsOneNode) {
  const auto grouping = on("pack:1 l3:4 core:4 pu:1", {{0}, {4}, {5}, {15}}).grouping();
  EXPECT_EQ(grouping.group_of, (std::vector<int>{0, 4, 4, 12}));
  EXPECT_EQ(grouping.within, LinkClass::kNear);
}

TEST(Groups, AreNoneWhereTheyWouldSayNothing) {
  const char* const machine = "pack:2 numa:2 l3:2 core:4 pu:1";
  EXPECT_TRUE(on(machine, {{0}, {1}, {2}}).grouping().group_of.empty()) << "all in one";
  EXPECT_TRUE(on(machine, {{0}, {8}, {16}}).grouping().group_of.empty()) << "one in each";
  EXPECT_TRUE(on(machine, {{0}, {1}, {0, 8}}).grouping().group_of.empty()) << "one is not bound";
  EXPECT_EQ(on(machine, {{0}, {1}, {4}, {5}}).grouping().group_of, (std::vector<int>{0, 0, 4, 4}))
      << "caches of a node";
  EXPECT_TRUE(Distances().grouping().group_of.empty());
  std::vector<Distances::Rank> hosts = four_ranks();
  hosts[3].host = 3;
  EXPECT_TRUE(Distances(hosts).grouping().group_of.empty()) << "hosts come first";
}

TEST(Groups, AreAsFarInsideAsWasMeasured) {
  std::vector<Distances::Rank> ranks = four_ranks();
  ranks[3] = {0, {0, 0, 2}, kCore, {}};
  ranks[0].links = {hop(1, 300), hop(2, 310)};
  EXPECT_EQ(Distances(ranks).grouping().within, LinkClass::kFar);
}

}  // namespace
}  // namespace tutti
