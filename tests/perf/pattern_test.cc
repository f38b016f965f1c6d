#include "perf/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "perf/data.h"
#include "perf/number.h"

namespace tutti::perf {
namespace {

using Kind = ReduceOp::Kind;

constexpr DataType kFloats[] = {DataType::kF16, DataType::kBF16,   DataType::kF32,
                                DataType::kF64, DataType::kF8E4M3, DataType::kF8E5M2};

TEST(Number, SmallFloatsSurviveDecodingAndEncoding) {
  for (const DataType type : {DataType::kF16, DataType::kBF16, DataType::kF8E4M3, DataType::kF8E5M2}) {
    for (std::uint64_t bits = 0; bits < 1ull << (8 * element_size(type)); ++bits) {
      if (std::isnan(decode(bits, type))) continue;
      ASSERT_EQ(encode(decode(bits, type), type), bits) << name(type);
    }
  }
}

TEST(Number, KnowsTheEndsOfEveryFormat) {
  EXPECT_EQ(decode(0x7bff, DataType::kF16), 65504);
  EXPECT_EQ(decode(0x7e, DataType::kF8E4M3), 448);
  EXPECT_EQ(decode(0x01, DataType::kF8E4M3), std::ldexp(1, -9));
  EXPECT_EQ(decode(0x7b, DataType::kF8E5M2), 57344);
  EXPECT_EQ(decode(0x3f80, DataType::kBF16), 1);
  EXPECT_EQ(encode(1e9, DataType::kF8E4M3), 0x7fu);  // no infinity
  EXPECT_EQ(encode(-1e9, DataType::kF16), 0xfc00u);
  EXPECT_EQ(decode(encode(-5, DataType::kI8), DataType::kI8), -5);
}

TEST(Number, RoundsToNearestEven) {
  EXPECT_EQ(decode(encode(2049, DataType::kF16), DataType::kF16), 2048);
  EXPECT_EQ(decode(encode(2051, DataType::kF16), DataType::kF16), 2052);
  EXPECT_EQ(decode(encode(65519, DataType::kF16), DataType::kF16), 65504);
  EXPECT_TRUE(std::isinf(decode(encode(65520, DataType::kF16), DataType::kF16)));
}

TEST(Number, MeasuresDistanceInRepresentableValues) {
  const auto bits = [](double value) { return encode(value, DataType::kF32); };
  EXPECT_EQ(distance(bits(1), bits(1), DataType::kF32), 0u);
  EXPECT_EQ(distance(bits(1), bits(1) + 3, DataType::kF32), 3u);
  EXPECT_EQ(distance(bits(0.0), bits(-0.0), DataType::kF32), 1u);
  EXPECT_GT(distance(bits(1), bits(NAN), DataType::kF32), 1000u);
}

// What a library may do at worst: any order, rounded to the type after every operation.
std::uint64_t reduce_in_order(const Pattern& pattern, DataType type, Kind op, const std::vector<int>& order,
                              std::size_t index) {
  double result = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double value = decode(pattern.input(order[i], index), type) * Pattern::op_of_rank(op, order[i]).scalar();
    result = i == 0 ? value : op == Kind::kProd ? result * value : result + value;
    result = decode(encode(result, type), type);
  }
  return encode(result, type);
}

TEST(Pattern, IsExactInEveryOrder) {
  std::mt19937 random(1);
  for (const DataType type : kFloats) {
    for (const Kind op : {Kind::kSum, Kind::kProd, Kind::kPreMulSum}) {
      for (const int ranks : {1, 2, 3, 7, 64, 100}) {
        const Pattern pattern(type, op, ranks, 7);
        std::vector<int> order(static_cast<std::size_t>(ranks));
        std::iota(order.begin(), order.end(), 0);
        for (std::size_t index = 0; index < 200; ++index) {
          std::shuffle(order.begin(), order.end(), random);
          ASSERT_EQ(reduce_in_order(pattern, type, op, order, index), pattern.reduction(index))
              << name(type) << " " << name(ReduceOp(op)) << " on " << ranks << " ranks, element " << index;
        }
      }
    }
  }
}

TEST(Pattern, IsFiniteEverywhere) {
  for (const DataType type : kFloats) {
    for (int op = 0; op <= static_cast<int>(Kind::kPreMulSum); ++op) {
      for (const int ranks : {1, 2, 64, 300}) {
        const Pattern pattern(type, static_cast<Kind>(op), ranks, 3);
        for (std::size_t index = 0; index < 100; ++index) {
          ASSERT_TRUE(std::isfinite(decode(pattern.input(ranks - 1, index), type)));
          ASSERT_TRUE(std::isfinite(decode(pattern.reduction(index), type)));
        }
      }
    }
  }
}

TEST(Pattern, IntegerAveragesDoNotOverflow) {
  for (const int ranks : {2, 5, 64, 200}) {
    const Pattern pattern(DataType::kI8, Kind::kAvg, ranks, 11);
    for (std::size_t index = 0; index < 300; ++index) {
      int sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        sum += static_cast<int>(decode(pattern.input(rank, index), DataType::kI8));
      }
      ASSERT_LE(std::abs(sum), 127);
      ASSERT_EQ(decode(pattern.reduction(index), DataType::kI8), sum / ranks);  // towards zero
    }
  }
}

TEST(Pattern, EveryRankCountsSomewhereAlsoInTheSmallestTypes) {
  constexpr int kRanks = 64;
  for (const DataType type : kFloats) {
    const Pattern pattern(type, Kind::kSum, kRanks, 5);
    for (int rank = 0; rank < kRanks; ++rank) {
      std::size_t nonzero = 0;
      for (std::size_t index = 0; index < kPeriod; ++index) nonzero += pattern.input(rank, index) != 0;
      EXPECT_GT(nonzero, 50u) << name(type) << " rank " << rank;
    }
  }
}

TEST(Pattern, RanksElementsAndSeedsDiffer) {
  const Pattern pattern(DataType::kF32, Kind::kSum, 4, 1);
  const Pattern other(DataType::kF32, Kind::kSum, 4, 2);
  int equal = 0;
  for (std::size_t index = 0; index < 1000; ++index) {
    equal += pattern.input(0, index) == pattern.input(1, index);
    equal += pattern.input(0, index) == pattern.input(0, index + 1);
    equal += pattern.input(0, index) == other.input(0, index);
    equal += pattern.reduction(index) == other.reduction(index);
  }
  EXPECT_LT(equal, 10);
}

TEST(Pattern, OnlyAveragesOverOddCountsMayRound) {
  EXPECT_EQ(Pattern::tolerance(DataType::kF32, Kind::kSum, 3), 0u);
  EXPECT_EQ(Pattern::tolerance(DataType::kF32, Kind::kAvg, 4), 0u);
  EXPECT_EQ(Pattern::tolerance(DataType::kI32, Kind::kAvg, 3), 0u);
  EXPECT_EQ(Pattern::tolerance(DataType::kF32, Kind::kAvg, 3), 2u);
}

}  // namespace
}  // namespace tutti::perf
