#include <gtest/gtest.h>

#include "communicator/values.h"
#include "support/ranks.h"

namespace tutti {
namespace {

class Sizes : public testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Placements, Sizes,
                         testing::Values(std::vector{0}, std::vector{0, 0}, std::vector{0, 0, 0, 0, 0},
                                         std::vector{0, 1, 2}, std::vector{0, 0, 1, 1, 2}),
                         [](const auto& info) {
                           std::string name;
                           for (const int host : info.param) name += std::to_string(host);
                           return "Hosts" + name;
                         });

TEST_P(Sizes, OfZeroNeedNoBuffers_F68) {
  const auto ranks = static_cast<int>(GetParam().size());
  expect_ranks(
      ranks,
      [ranks](Communicator& communicator) {
        for (int c = 0; c < kCollectives; ++c) {
          for (int t = 0; t < kDataTypes; ++t) {
            const TestCall call{
                static_cast<Collective>(c), static_cast<DataType>(t), ReduceOp::Kind::kSum, 0, t % ranks, false, 0};
            doing(describe(call));
            issue(communicator, call, nullptr, nullptr);
          }
        }
        int one = 1;
        communicator.all_reduce(&one, &one, 1, DataType::kI32, kSum);
        EXPECT_EQ(one, ranks);
      },
      on_hosts(GetParam()));
}

TEST_P(Sizes, BelowTheNumberOfRanksAndAroundItLoseNothing_F78) {
  const auto ranks = static_cast<int>(GetParam().size());
  prepare_reference();
  expect_ranks(
      ranks,
      [ranks](Communicator& communicator) {
        for (int c = 0; c < kCollectives; ++c) {
          for (std::size_t count = 1; count <= 12; ++count) {
            const TestCall call{static_cast<Collective>(c),
                                DataType::kI16,
                                ReduceOp::Kind::kSum,
                                count,
                                static_cast<int>(count) % ranks,
                                count % 2 == 0,
                                count};
            doing(describe(call));
            ASSERT_EQ(perform(communicator, call, 0), "");
          }
        }
      },
      on_hosts(GetParam()));
}

// Chunks of 4096 bytes, so that sizes around k·ranks·chunk are small.
TEST_P(Sizes, AroundWholeChunksLoseNothing_F78) {
  const auto ranks = static_cast<int>(GetParam().size());
  prepare_reference();
  RankSetup setup = on_hosts(GetParam());
  setup.options.config["TUTTI_CHUNK_BYTES"] = "4096";
  expect_ranks(
      ranks,
      [ranks](Communicator& communicator) {
        const std::size_t whole = 512 * static_cast<std::size_t>(ranks);
        for (int c = 0; c < kCollectives; ++c) {
          for (const std::size_t count : {whole - 1, whole, whole + 1, 3 * whole - 1, 3 * whole + 1}) {
            if (reduced() && count > whole + 1) continue;
            const TestCall call{static_cast<Collective>(c),
                                DataType::kU64,
                                ReduceOp::Kind::kSum,
                                count,
                                static_cast<int>(count) % ranks,
                                count % 2 == 0,
                                count};
            doing(describe(call));
            ASSERT_EQ(perform(communicator, call, 0), "");
          }
        }
      },
      setup);
}

// The size of a public report: nothing about it is even.
TEST(Sizes, OfMillionsAndOddLoseNothing_F76) {
  const std::size_t count = reduced() ? 1'055'657 : 10'556'587;
  expect_ranks(2, [count](Communicator& communicator) {
    const std::size_t shift = static_cast<std::size_t>(communicator.rank()) + 1;
    std::vector<float> values(count + shift);
    for (std::size_t i = 0; i < count; ++i) values[shift + i] = static_cast<float>(i % 1021);
    communicator.all_reduce(values.data() + shift, values.data() + shift, count, DataType::kF32, kSum);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) wrong += values[shift + i] != static_cast<float>(2 * (i % 1021));
    EXPECT_EQ(wrong, 0u);
  });
}

}  // namespace
}  // namespace tutti
