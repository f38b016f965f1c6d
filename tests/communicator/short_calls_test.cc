// Calls that were made before are kept ready, and run without an operation of their own.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "communicator/arguments.h"
#include "communicator/values.h"
#include "support/ranks.h"

namespace tutti {
namespace {

using Kind = ReduceOp::Kind;

// Around all thresholds of short messages: what fits into a line, into a slot of the small ring, the last that goes in
// a straight line, and the last that is kept.
constexpr std::size_t kLengths[] = {0, 1, 95, 96, 97, 2047, 2048, 2049, 4095, 4096, 4097, 20'000, 131'072, 131'073};

class ShortCalls : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShortCalls, testing::Values(1, 2, 3, 5));

// Each of them again and again, with other calls that are kept between: with values, buffers and roots of their own.
TEST_P(ShortCalls, MadeAgainGiveTheirOwnResults) {
  const int ranks = GetParam();
  prepare_reference();
  expect_ranks(ranks, [ranks](Communicator& communicator) {
    std::uint64_t seed = 0;
    for (int c = 0; c < kCollectives; ++c) {
      for (int again = 0; again < 3; ++again) {
        for (const std::size_t length : kLengths) {
          const TestCall call{
              static_cast<Collective>(c), DataType::kU8, Kind::kSum, length, again % ranks, seed % 2 == 1, ++seed};
          doing(describe(call));
          ASSERT_EQ(perform(communicator, call, seed % 3), "");
        }
      }
    }
  });
}

TEST_P(ShortCalls, OfEveryOperationAreToldApart) {
  const int ranks = GetParam();
  prepare_reference();
  expect_ranks(ranks, [](Communicator& communicator) {
    std::uint64_t seed = 0;
    for (int again = 0; again < 3; ++again) {
      for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
        for (const DataType type : {DataType::kI32, DataType::kF32, DataType::kBF16}) {
          for (int kind = 0; kind < ReduceOp::kKinds; ++kind) {
            const TestCall call{collective, type, static_cast<Kind>(kind), 6, 0, false, ++seed};
            if (!supports(static_cast<Kind>(kind), type)) continue;
            doing(describe(call));
            ASSERT_EQ(perform(communicator, call, 0), "");
          }
        }
      }
    }
  });
}

// Factors are no part of a call's shape.
TEST_P(ShortCalls, WithOtherFactorsUseThem) {
  const int ranks = GetParam();
  expect_ranks(ranks, [ranks](Communicator& communicator) {
    for (const double factor : {1.0, 2.0, 1.0, 0.5}) {
      const float one = 1;
      float sum = 0;
      communicator.all_reduce(&one, &sum, 1, DataType::kF32, ReduceOp::pre_mul_sum(factor));
      EXPECT_EQ(sum, static_cast<float>(factor * ranks));
    }
  });
}

// Ranks that come late at random, some of them later than anybody looks without the operation.
TEST_P(ShortCalls, WaitForLatePeers) {
  const int ranks = GetParam();
  const std::uint64_t seed = sample_seed();
  prepare_reference();
  expect_ranks(ranks, [ranks, seed](Communicator& communicator) {
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(communicator.rank()));
    for (int round = 0; round < (reduced() ? 30 : 150); ++round) {
      const std::uint64_t late = random() % 8;
      if (late == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      const TestCall call{static_cast<Collective>(round % kCollectives),
                          DataType::kU8,
                          Kind::kSum,
                          kLengths[static_cast<std::size_t>(round / kCollectives) % 3 + 3],
                          round % ranks,
                          false,
                          static_cast<std::uint64_t>(round)};
      doing(describe(call) + ", seed " + std::to_string(seed));
      ASSERT_EQ(perform(communicator, call, 0), "");
    }
  });
}

TEST(RepeatedCalls, OfMoreRanksThanCoresEnd) {
  constexpr int kRanks = 8;
  expect_ranks(kRanks, [](Communicator& communicator) {
    for (int i = 0; i < (reduced() ? 20 : 100); ++i) {
      const float mine = static_cast<float>(i + communicator.rank());
      float sum = 0;
      communicator.all_reduce(&mine, &sum, 1, DataType::kF32, kSum);
      ASSERT_EQ(sum, static_cast<float>(kRanks * i + kRanks * (kRanks - 1) / 2));
      communicator.barrier();
    }
  });
}

struct Pair {
  std::string name;
  TestCall most;
  TestCall odd;
};
std::ostream& operator<<(std::ostream& out, const Pair& pair) { return out << pair.name; }

class KeptCalls : public testing::TestWithParam<Pair> {};
INSTANTIATE_TEST_SUITE_P(Disagreements, KeptCalls,
                         testing::Values(Pair{"Counts",
                                              {Collective::kAllReduce, DataType::kF32, Kind::kSum, 2, 0, false, 1},
                                              {Collective::kAllReduce, DataType::kF32, Kind::kSum, 3, 0, false, 1}},
                                         Pair{"Slots",
                                              {Collective::kAllGather, DataType::kF32, Kind::kSum, 100, 0, false, 1},
                                              {Collective::kAllGather, DataType::kF32, Kind::kSum, 101, 0, false, 1}},
                                         Pair{"Interpreted",
                                              {Collective::kAllReduce, DataType::kF32, Kind::kSum, 5000, 0, false, 1},
                                              {Collective::kAllReduce, DataType::kF32, Kind::kSum, 5001, 0, false, 1}},
                                         Pair{"Collectives",
                                              {Collective::kReduceScatter, DataType::kF32, Kind::kSum, 2, 0, false, 1},
                                              {Collective::kAllToAll, DataType::kF32, Kind::kSum, 2, 0, false, 1}},
                                         Pair{"Roots",
                                              {Collective::kBroadcast, DataType::kF32, Kind::kSum, 2, 0, false, 1},
                                              {Collective::kBroadcast, DataType::kF32, Kind::kSum, 2, 1, false, 1}}),
                         [](const auto& info) { return info.param.name; });

CallShape shape_of(const TestCall& call) {
  return {call.collective, call.type, call.op, static_cast<std::uint32_t>(call.root), call.count};
}

TEST_P(KeptCalls, ThatDoNotFitAreAnErrorThatNamesBoth) {
  const Pair& pair = GetParam();
  prepare_reference();
  const auto ends = run_ranks(2, [&pair](Communicator& communicator) {
    for (int again = 0; again < 3; ++again) {
      ASSERT_EQ(perform(communicator, pair.most, 0), "");
      ASSERT_EQ(perform(communicator, pair.odd, 0), "");
    }
    perform(communicator, communicator.rank() == 1 ? pair.odd : pair.most, 0);
    communicator.barrier();
  });
  for (const RankEnd& end : ends) {
    ASSERT_TRUE(end.error) << end.text;
    EXPECT_EQ(end.error->code(), ErrorCode::kMismatch) << end.text;
    EXPECT_NE(end.text.find(describe(shape_of(pair.most))), std::string::npos) << end.text;
    EXPECT_NE(end.text.find(describe(shape_of(pair.odd))), std::string::npos) << end.text;
  }
}

TEST(RepeatedCalls, OfAFailedCommunicatorFail) {
  const auto ends = run_ranks(2, [](Communicator& communicator) {
    const float mine = 1;
    float sum = 0;
    for (int i = 0; i < 3; ++i) communicator.all_reduce(&mine, &sum, 1, DataType::kF32, kSum);
    communicator.barrier();
    if (communicator.rank() == 0) communicator.abort("enough");
    communicator.all_reduce(&mine, &sum, 1, DataType::kF32, kSum);
  });
  for (const RankEnd& end : ends) ASSERT_TRUE(end.error) << end.text;
}

TEST(RepeatedCalls, OfADestroyedCommunicatorFail) {
  expect_ranks(2, [](Communicator& communicator) {
    const float mine = 1;
    float sum = 0;
    for (int i = 0; i < 3; ++i) communicator.all_reduce(&mine, &sum, 1, DataType::kF32, kSum);
    communicator.destroy();
    EXPECT_THROW(communicator.all_reduce(&mine, &sum, 1, DataType::kF32, kSum), Error);
  });
}

TEST(RepeatedCalls, AreCountedAndLoggedLikeOthers) {
  for (const std::size_t count : {2, 5000}) {
    expect_ranks(2, [count](Communicator& communicator) {
      const std::vector<float> mine(count, 1);
      std::vector<float> sum(count);
      constexpr std::uint64_t kCalls = 20;
      for (std::uint64_t i = 1; i <= kCalls; ++i) {
        EXPECT_EQ(communicator.all_reduce(mine.data(), sum.data(), count, DataType::kF32, kSum).sequence(), i);
      }
      const auto counted = communicator.statistics().collectives.at("all_reduce");
      EXPECT_EQ(counted.calls, kCalls);
      EXPECT_EQ(counted.bytes, kCalls * count * sizeof(float));
    });
  }
}

}  // namespace
}  // namespace tutti
