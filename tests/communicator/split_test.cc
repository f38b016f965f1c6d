#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "communicator/values.h"
#include "support/ranks.h"
#include "tutti/group.h"

namespace tutti {
namespace {

int all_sum(Communicator& communicator, int value) {
  communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
  return value;
}

// What a rank of a communicator should be told: who the members are, by their ranks in the parent.
std::vector<int> members_of(Communicator& child, int rank_in_parent) {
  std::vector<int> members(static_cast<std::size_t>(child.ranks()));
  child.all_gather(&rank_in_parent, members.data(), 1, DataType::kI32);
  return members;
}

// One colour and key of each of four ranks.
using Pattern = std::array<std::pair<int, int>, 4>;

std::vector<int> expected_members(const Pattern& pattern, int color) {
  std::vector<int> members;
  for (int rank = 0; rank < 4; ++rank) {
    if (pattern[static_cast<std::size_t>(rank)].first == color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {}, [&](int rank) { return pattern[static_cast<std::size_t>(rank)].second; });
  return members;
}

class Split : public testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Placements, Split,
                         testing::Values(std::vector{0, 0, 0, 0}, std::vector{0, 1, 2, 3}, std::vector{0, 1, 0, 1}),
                         [](const auto& info) {
                           std::string name = "Hosts";
                           for (const int host : info.param) name += std::to_string(host);
                           return name;
                         });

// Colours none, 0 and 1 for each of four ranks, with keys that keep, turn round and tie the order: all 81 times 3 on
// shared memory; every colour pattern once elsewhere.
TEST_P(Split, GivesEveryColourAndKeyPatternItsRankMap_F66) {
  const bool shared = GetParam() == std::vector{0, 0, 0, 0} && !reduced();
  std::vector<Pattern> patterns;
  for (int number = 0; number < 81; ++number) {
    for (int order = shared ? 0 : number % 3; order < (shared ? 3 : number % 3 + 1); ++order) {
      Pattern pattern;
      for (int rank = 0, left = number; rank < 4; ++rank, left /= 3) {
        pattern[static_cast<std::size_t>(rank)] = {left % 3 - 1, order == 0 ? 7 : order == 1 ? -rank : rank / 2 * -5};
      }
      patterns.push_back(pattern);
    }
  }
  expect_ranks(
      4,
      [&](Communicator& world) {
        for (const Pattern& pattern : patterns) {
          const auto [color, key] = pattern[static_cast<std::size_t>(world.rank())];
          std::optional<Communicator> child = world.split(color, key);
          ASSERT_EQ(child.has_value(), color >= 0);
          if (child) {
            const std::vector<int> expected = expected_members(pattern, color);
            ASSERT_EQ(child->ranks(), static_cast<int>(expected.size()));
            ASSERT_EQ(expected[static_cast<std::size_t>(child->rank())], world.rank());
            ASSERT_EQ(members_of(*child, world.rank()), expected);
            EXPECT_EQ(child->name(), "world/" + std::to_string(color));
          }
          ASSERT_EQ(all_sum(world, 1), 4) << "the parent stays usable";
        }
      },
      on_hosts(GetParam()));
}

TEST_P(Split, TakesKeysOfAllSizesAndManyColours_F66) {
  expect_ranks(
      4,
      [](Communicator& world) {
        const std::array keys{2'000'000'000, -2'000'000'000, 0, -1};
        std::optional<Communicator> turned = world.split(1'000'000'000, keys[static_cast<std::size_t>(world.rank())]);
        ASSERT_TRUE(turned);
        EXPECT_EQ(members_of(*turned, world.rank()), (std::vector{1, 3, 2, 0}));
        std::optional<Communicator> alone = world.split(world.rank(), 0, {.name = "alone"});
        ASSERT_TRUE(alone);
        EXPECT_EQ(alone->ranks(), 1);
        EXPECT_EQ(all_sum(*alone, 5), 5);
        EXPECT_EQ(alone->name(), "alone");
        EXPECT_FALSE(world.split(-7, 0)) << "nobody wants one";
        EXPECT_EQ(all_sum(world, 1), 4);
      },
      on_hosts(GetParam()));
}

TEST_P(Split, OfASplitWorksWhenItsParentsAreGone) {
  expect_ranks(
      4,
      [](Communicator& world) {
        std::optional<Communicator> three = world.split(world.rank() == 2 ? 1 : 0, -world.rank());
        ASSERT_TRUE(three);
        world.destroy();
        if (world.rank() == 2) return;
        std::optional<Communicator> two = three->split(three->rank() == 0 ? -1 : 0, -three->rank());
        three->destroy();
        three->destroy();
        if (!two) return;
        std::optional<Communicator> again = two->split(0, 0);
        EXPECT_EQ(again->name(), "world/0/0/0");
        EXPECT_EQ(members_of(*again, world.rank()), (std::vector{0, 1}));
        std::vector<float> values(100'000, 1);
        two->all_reduce(std::span<const float>(values), std::span(values));
        EXPECT_EQ(values.back(), 2);
        float mine = static_cast<float>(world.rank());
        if (again->rank() == 0) again->send(&mine, 1, DataType::kF32, 1);
        if (again->rank() == 1) {
          EXPECT_EQ(again->recv(&mine, 1, DataType::kF32, kAnySource).source(), 0);
        }
        EXPECT_EQ(mine, 0);
      },
      on_hosts(GetParam()));
}

TEST_P(Split, FromSeveralThreadsOnDifferentCommunicators_F66) {
  expect_ranks(
      4,
      [](Communicator& world) {
        std::vector<Communicator> parents;
        for (int i = 0; i < 4; ++i) parents.push_back(*world.split(0, 0));
        in_threads(4, [&](int thread) {
          Communicator& parent = parents[static_cast<std::size_t>(thread)];
          for (int i = 0; i < 5; ++i) {
            std::optional<Communicator> child =
                parent.split((parent.rank() + i) % 2, thread % 2 == 0 ? 0 : -parent.rank());
            EXPECT_EQ(all_sum(*child, 1), 2);
            EXPECT_EQ(all_sum(parent, 1), 4);
          }
        });
      },
      on_hosts(GetParam()));
}

TEST_P(Split, ChildrenAndParentsAreUsedAtTheSameTime) {
  expect_ranks(
      4,
      [](Communicator& world) {
        std::optional<Communicator> row = world.split(world.rank() / 2, 0);
        std::optional<Communicator> column = world.split(world.rank() % 2, 0);
        in_threads(3, [&](int thread) {
          Communicator& mine = thread == 0 ? world : thread == 1 ? *row : *column;
          std::vector<float> values(20'000, 1);
          for (int i = 0; i < 20; ++i) {
            std::ranges::fill(values, 1);
            mine.all_reduce(std::span<const float>(values), std::span(values));
            ASSERT_EQ(values[values.size() / 2], static_cast<float>(mine.ranks()));
          }
        });
      },
      on_hosts(GetParam()));
}

// Any of the communicators may go first, on each rank in another order, from another thread, twice.
TEST_P(Split, CommunicatorsAreDestroyedInAnyOrder_F60) {
  for (int order = 0; order < 6; ++order) {
    expect_ranks(
        4,
        [order](Communicator& world) {
          std::optional<Communicator> row = world.split(world.rank() / 2, 0);
          std::optional<Communicator> column = world.split(world.rank() % 2, 0);
          std::array<int, 3> turn{0, 1, 2};
          for (int i = 0; i < (order + world.rank()) % 6; ++i) std::ranges::next_permutation(turn);
          const std::array all{&world, &*row, &*column};
          for (const int which : turn) {
            std::thread([&] {
              all[static_cast<std::size_t>(which)]->destroy();
              all[static_cast<std::size_t>(which)]->destroy();
            }).join();
          }
        },
        on_hosts(GetParam()));
  }
}

TEST_P(Split, GoesOnWhenASiblingOrTheParentFails) {
  for (const bool child_fails : {false, true}) {
    const auto ends = run_ranks(
        4,
        [child_fails](Communicator& world) {
          std::optional<Communicator> healthy = world.split(0, 0, {.name = "healthy"});
          std::optional<Communicator> doomed = world.split(0, 0, {.name = "doomed"});
          Communicator& failing = child_fails ? *doomed : world;
          ASSERT_EQ(all_sum(*healthy, 1), 4) << "no rank is in a call of the parent any more";
          std::vector<float> values(20'000 + static_cast<std::size_t>(world.rank()), 1);
          try {
            failing.all_reduce(std::span<const float>(values), std::span(values));
            ADD_FAILURE() << "a mismatch is found";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.what();
            EXPECT_NE(std::string(error.what()).find(failing.name()), std::string::npos) << error.what();
          }
          for (int i = 0; i < 20; ++i) ASSERT_EQ(all_sum(*healthy, 1), 4);
        },
        on_hosts(GetParam()));
    for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
  }
}

TEST_P(Split, LeavingAChildEarlyIsToldToItsMembersAlone_F64) {
  const auto ends = run_ranks(
      4,
      [](Communicator& world) {
        std::optional<Communicator> child = world.split(world.rank() == 3 ? 1 : 0, -world.rank(), {.name = "dp"});
        all_sum(*child, 1);
        if (world.rank() == 1) child->destroy();
        if (world.rank() == 0 || world.rank() == 2) {
          try {
            all_sum(*child, 1);
            ADD_FAILURE() << "rank 1 left";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kRemote) << error.what();
            EXPECT_EQ(error.peer(), 1) << error.what();
            for (const char* part : {"rank 1 (", "left after call #1", "\"dp\"", "#2"}) {
              EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
                  << part << " is not in " << error.what();
            }
          }
        }
        EXPECT_EQ(all_sum(world, 1), 4);
      },
      on_hosts(GetParam()));
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

// All ranks in one thread: every split of the group is under way before any ends; those of one parent keep their order.
TEST(SplitInAGroup, MakesTheCommunicatorsOfAllRanksOfOneThread) {
  constexpr int kRanks = 3;
  const UniqueId id = UniqueId::create();
  std::vector<Communicator> world;
  {
    Group group;
    for (int rank = 0; rank < kRanks; ++rank) world.push_back(Communicator::create(id, rank, kRanks));
    group.end();
  }
  std::vector<std::optional<Communicator>> all;
  std::vector<std::optional<Communicator>> turned;
  {
    Group group;
    for (int rank = 0; rank < kRanks; ++rank) {
      Communicator& mine = world[static_cast<std::size_t>(rank)];
      all.push_back(mine.split(0, 0, {.name = "all"}));
      turned.push_back(mine.split(rank == 1 ? -1 : 0, -rank, {.name = "turned"}));
    }
    EXPECT_THROW(all[0]->rank(), Error) << "not yet there";
    group.end();
  }
  EXPECT_FALSE(turned[1].has_value());
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(all[static_cast<std::size_t>(rank)]->name(), "all");
    EXPECT_EQ(all[static_cast<std::size_t>(rank)]->rank(), rank);
  }
  EXPECT_EQ(turned[0]->rank(), 1);
  EXPECT_EQ(turned[2]->rank(), 0);
  std::array<int, kRanks> values{1, 2, 3};
  {
    Group group;
    for (int rank = 0; rank < kRanks; ++rank) {
      int* value = &values[static_cast<std::size_t>(rank)];
      all[static_cast<std::size_t>(rank)]->all_reduce(value, value, 1, DataType::kI32, kSum);
    }
    group.end();
  }
  EXPECT_EQ(values, (std::array{6, 6, 6}));
}

TEST(SplitStatistics, DoNotCountWhatASplitExchanges) {
  expect_ranks(3, [](Communicator& world) {
    world.split(world.rank(), 0);
    EXPECT_EQ(world.statistics().collectives.at("all_gather").calls, 0u);
  });
}

// Errors of a split: told to all whom they concern, and the parent stays usable.
void expect_told(const std::function<void(int rank, int& color, Options& options)>& adapt,
                 const std::vector<int>& concerned, ErrorCode code, int peer, const std::vector<std::string>& parts,
                 int culprit = -1) {
  expect_ranks(4, [&](Communicator& world) {
    int color = 0;
    Options options{.name = ""};
    adapt(world.rank(), color, options);
    const bool told = std::ranges::count(concerned, world.rank()) > 0;
    try {
      std::optional<Communicator> child = world.split(color, 0, options);
      EXPECT_FALSE(told) << "rank " << world.rank();
      if (child) {
        EXPECT_GT(all_sum(*child, 1), 0);
      }
    } catch (const Error& error) {
      EXPECT_TRUE(told) << "rank " << world.rank() << ": " << error.what();
      if (world.rank() != culprit) {
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_EQ(error.peer(), peer) << error.what();
      } else {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting) << error.what();
      }
      for (const std::string& part : parts) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " is not in " << error.what();
      }
    }
    EXPECT_EQ(all_sum(world, 1), 4) << "the parent stays usable";
    std::optional<Communicator> whole = world.split(0, 0);
    EXPECT_EQ(all_sum(*whole, 1), 4) << "and can be split";
  });
}

TEST(SplitErrors, MembersThatDisagreeOnTheNameAreToldWho) {
  expect_told(
      [](int rank, int& color, Options& options) {
        color = rank == 3 ? 1 : 0;
        options.name = rank == 2 ? "tp" : "dp";
      },
      {0, 1, 2}, ErrorCode::kMismatch, 2, {"rank 2 (", "rank 0 (", "\"tp\"", "\"dp\"", "\"world\"", "colour 0"});
}

TEST(SplitErrors, MembersThatDisagreeOnReproducibleOrSettingsAreToldWho) {
  expect_told([](int rank, int&, Options& options) { options.reproducible = rank == 1; }, {0, 1, 2, 3},
              ErrorCode::kMismatch, 1, {"rank 1 (", "reproducible 1", "reproducible 0"});
  expect_told(
      [](int rank, int& color, Options& options) {
        color = rank % 2;
        if (rank == 3) options.config["TUTTI_CHANNELS"] = "1";
      },
      {1, 3}, ErrorCode::kMismatch, Error::kNoPeer, {"rank 3 (", "rank 1 (", "TUTTI_CHANNELS=1", "TUTTI_CHANNELS=0"});
}

TEST(SplitErrors, OfOneMembersOptionsAreToldToItsColour) {
  expect_told(
      [](int rank, int& color, Options& options) {
        color = rank % 2;
        if (rank == 2) options.config["TUTTI_CHANNELS"] = "many";
      },
      {0, 2}, ErrorCode::kRemote, 2, {"TUTTI_CHANNELS", "many"}, 2);
}

TEST(SplitErrors, OfAllMembersAreThrownOnAll) {
  const auto ends = run_ranks(4, [](Communicator& world) {
    Options options{.name = "odd"};
    options.config["TUTTI_ALGO"] = "nonsense";
    EXPECT_THROW(world.split(0, 0, options), Error);
    EXPECT_EQ(all_sum(world, 1), 4);
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST(SplitErrors, AnotherCallInPlaceOfASplitIsFound_F67) {
  const auto ends = run_ranks(3, [](Communicator& world) {
    all_sum(world, 1);
    if (world.rank() == 1) {
      all_sum(world, 1);
    } else {
      world.split(0, 0);
    }
  });
  for (const RankEnd& end : ends) {
    ASSERT_TRUE(end.error) << end.text;
    EXPECT_EQ(end.error->code(), ErrorCode::kMismatch) << end.text;
    EXPECT_NE(end.text.find("\"split\""), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("all_reduce i32×1 sum"), std::string::npos) << end.text;
  }
}

TEST(SplitErrors, OfACommunicatorThatWasDestroyedOrHasFailed) {
  const auto ends = run_ranks(2, [](Communicator& world) {
    std::optional<Communicator> child = world.split(0, 0);
    child->destroy();
    try {
      child->split(0, 0);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
    EXPECT_EQ(all_sum(world, 1), 2);
    if (world.rank() == 1) throw std::runtime_error("gone");
    world.split(0, 0);
  });
  ASSERT_TRUE(ends[0].error) << ends[0].text;
  EXPECT_EQ(ends[0].error->code(), ErrorCode::kRemote) << ends[0].text;
}

// Settings of the parent hold for the child, unless its own say otherwise.
TEST(SplitSettings, AreThoseOfTheParentWithTheChildsOwnOnTop) {
  expect_ranks(
      2,
      [](Communicator& world) {
        std::optional<Communicator> same = world.split(0, 0);
        EXPECT_EQ(same->plan("all_reduce", 1'000'000, DataType::kF32).find("ring"), 0)
            << same->plan("all_reduce", 1'000'000, DataType::kF32);
        EXPECT_EQ(same->hosts(), 1);
        Options options{.name = "apart"};
        options.config = {{"TUTTI_ALGO", "two_shot"}, {"TUTTI_SHM_DISABLE", "1"}};
        std::optional<Communicator> apart = world.split(0, 0, options);
        EXPECT_EQ(apart->hosts(), 2);
        EXPECT_EQ(apart->plan("all_reduce", 1'000'000, DataType::kF32), "two_shot over tcp");
        EXPECT_EQ(all_sum(*apart, 1) + all_sum(*same, 1), 4);
      },
      with_config({{"TUTTI_ALGO", "ring"}}));
}

TEST(SplitErrors, AfterDestroyAreOfTheSplit) {
  expect_ranks(2, [](Communicator& world) {
    world.destroy();
    try {
      static_cast<void>(world.split(0, 0));
      ADD_FAILURE() << "a destroyed communicator was split";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_TRUE(std::string(error.what()).starts_with("split on ")) << error.what();
    }
  });
}

}  // namespace
}  // namespace tutti
