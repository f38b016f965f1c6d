// Calls on containers, arrays and spans, and the types of C++ that they may hold.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "support/ranks.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

TEST(Ranges, AreBuffersOfEveryCall_B10) {
  expect_ranks(2, [](Communicator& world) {
    const int rank = world.rank();
    const std::vector<float> two{1.0f + float(rank), 10};
    std::vector<float> sum(2);
    world.all_reduce(two, sum);
    EXPECT_EQ(sum, (std::vector<float>{3, 20}));
    std::vector<float> own = two;
    world.all_reduce(own, kMax);
    EXPECT_EQ(own, (std::vector<float>{2, 10}));
    own = two;
    world.all_reduce(std::span(own).subspan(1));
    EXPECT_EQ(own[1], 20);
    EXPECT_EQ(own[0], two[0]) << "the rest is not touched";

    std::array<int, 1> one{rank};
    int all[2] = {-1, -1};
    world.all_gather(one, all);
    EXPECT_EQ(all[0], 0);
    EXPECT_EQ(all[1], 1);
    std::vector<int> scattered(1);
    world.reduce_scatter(all, scattered);
    EXPECT_EQ(scattered[0], 2 * rank);
    world.all_to_all(std::vector<int>{10 * rank, 10 * rank + 1}, all);
    EXPECT_EQ(all[0], rank);
    EXPECT_EQ(all[1], 10 + rank);

    char text[3] = {rank == 0 ? 'a' : '-', 'b', 'c'};
    world.broadcast(text, 0);
    EXPECT_EQ(text[0], 'a');
    std::vector<double> reduced{1.5};
    world.reduce(reduced, kSum, 1);
    EXPECT_EQ(reduced[0], rank == 1 ? 3 : 1.5);
    world.gather(one, all, 0);
    world.scatter(all, one, 0);
    EXPECT_EQ(one[0], rank);
    if (rank == 0) {
      world.send(std::span(text), 1, 5);
    } else {
      std::vector<char> received(3);
      world.recv(received, 0, 5);
      EXPECT_EQ(received[2], 'c');
    }

    const std::vector<std::size_t> counts{1, 2};
    const std::vector<int> mine(counts[std::size_t(rank)], rank);
    std::vector<int> gathered(3);
    world.all_gather_v(mine, gathered, counts);
    EXPECT_EQ(gathered, (std::vector<int>{0, 1, 1}));
  });
}

TEST(Ranges, OfDifferentLengthsAreRefused_B10) {
  expect_ranks(1, [](Communicator& world) {
    std::vector<int> two(2), three(3);
    try {
      world.all_reduce(two, three);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    }
  });
}

template <class T>
void expect_sum(Communicator& world) {
  std::vector<T> values{T(1), T(2), T(3)};
  world.all_reduce(values);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(values[std::size_t(i)], T(2 * (i + 1)));
}

TEST(Ranges, HoldEveryIntegerTypeOfTheLanguage_B10) {
  expect_ranks(2, [](Communicator& world) {
    expect_sum<char>(world);
    expect_sum<signed char>(world);
    expect_sum<unsigned char>(world);
    expect_sum<short>(world);
    expect_sum<unsigned short>(world);
    expect_sum<int>(world);
    expect_sum<unsigned>(world);
    expect_sum<long>(world);
    expect_sum<unsigned long>(world);
    expect_sum<long long>(world);
    expect_sum<unsigned long long>(world);
    bool any[2] = {world.rank() == 1, false};
    world.all_reduce(any, kMax);
    EXPECT_TRUE(any[0]);
    EXPECT_FALSE(any[1]);
    EXPECT_THROW(world.all_reduce(any, kSum), Error) << "its result may be no bool";
    EXPECT_THROW(world.all_reduce(std::span<const bool>(any), std::span<bool>(any), kSum), Error);
    std::byte bytes[1] = {std::byte(world.rank() + 1)};
    world.all_reduce(bytes, kBor);
    EXPECT_EQ(bytes[0], std::byte{3});
  });
}

TEST(Version, IsThatOfTheHeaders_B10) {
  EXPECT_EQ(version(), TUTTI_VERSION);
  EXPECT_GE(TUTTI_VERSION, TUTTI_MAKE_VERSION(0, 1, 0));
  EXPECT_LT(TUTTI_MAKE_VERSION(0, 99, 99), TUTTI_MAKE_VERSION(1, 0, 0));
}

}  // namespace
}  // namespace tutti
