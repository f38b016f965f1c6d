#include <gtest/gtest.h>

#include <limits>

#include "reduce/float_codes.h"
#include "reduce/sources.h"

namespace tutti {
namespace {

constexpr DataType kSmallFloats[] = {DataType::kF16, DataType::kBF16, DataType::kF8E4M3, DataType::kF8E5M2};
constexpr DataType kFloats[] = {DataType::kF16, DataType::kBF16,   DataType::kF32,
                                DataType::kF64, DataType::kF8E4M3, DataType::kF8E5M2};

std::uint64_t sign_of(DataType type) { return std::uint64_t{1} << (8 * element_size(type) - 1); }

Codes all_codes(DataType type) {
  Codes codes(std::size_t{1} << (8 * element_size(type)));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = i;
  return codes;
}

void expect_contract(const Reduction& reduction, const std::vector<Codes>& sources, int mapped = -1) {
  const Codes wanted = expected(reduction, sources, mapped);
  on_every_target([&](const std::string& target) {
    const Codes got = reduced(reduction, sources, mapped);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], wanted[i]) << target << " " << to_string(reduction) << ", element " << i << ", first operand "
                                   << sources[0][i];
    }
  });
}

TEST(SmallFloats, AddingMinusZeroKeepsEveryCodeButNaNs) {
  for (const DataType type : kSmallFloats) {
    const Codes codes = all_codes(type);
    const Codes minus_zeros(codes.size(), sign_of(type));
    Codes wanted = codes;
    for (std::uint64_t& code : wanted) code = is_nan(type, code) ? canonical_nan(type) : code;
    for (const bool every_node : {false, true}) {
      on_every_target([&](const std::string& target) {
        EXPECT_EQ(reduced({type, kSum, 1, false, every_node}, {codes, minus_zeros}), wanted)
            << target << " " << name(type);
      });
    }
  }
}

TEST(SmallFloats, EveryPairOfEightBitFloatsIsCombinedAsDefined) {
  for (const DataType type : {DataType::kF8E4M3, DataType::kF8E5M2}) {
    Codes left, right;
    for (std::uint64_t pair = 0; pair < 65536; ++pair) {
      left.push_back(pair % 256);
      right.push_back(pair / 256);
    }
    for (const ReduceOp op : {kSum, kProd, kMin, kMax, kAvg}) {
      for (const bool every_node : {false, true}) expect_contract({type, op, 3, true, every_node}, {left, right});
    }
  }
}

TEST(SmallFloats, EveryMultipleOfAHalfFloatRoundsToNearestEven) {
  for (const DataType type : {DataType::kF16, DataType::kBF16}) {
    for (const double scalar : {1.0 / 3, 1.0009765625, 1.00390625, 0.5, 0x1p-20, 0x1.8p+9}) {
      for (const bool every_node : {false, true}) {
        expect_contract({type, ReduceOp::pre_mul_sum(scalar), 1, false, every_node}, {all_codes(type)}, 0);
      }
    }
    expect_contract({type, kAvg, 7, true}, {all_codes(type), all_codes(type)});
  }
}

TEST(SmallFloats, OverflowGivesInfinityOrWhereThereIsNoneNaN) {
  const auto doubled = [](DataType type) {
    const std::uint64_t largest = type == DataType::kF8E4M3 ? infinity(type) : infinity(type) - 1;
    return reduced({type, kSum, 1}, {{largest}, {largest}})[0];
  };
  EXPECT_EQ(doubled(DataType::kF16), 0x7c00u);
  EXPECT_EQ(doubled(DataType::kBF16), 0x7f80u);
  EXPECT_EQ(doubled(DataType::kF8E5M2), 0x7cu);
  EXPECT_EQ(doubled(DataType::kF8E4M3), 0x7fu);
  // 448 + 16 lies halfway to 480, which is not there: ties to even stay at 448.
  const DataType e4m3 = DataType::kF8E4M3;
  EXPECT_EQ(reduced({e4m3, kSum, 1}, {{encode(e4m3, 448)}, {encode(e4m3, 16)}})[0], encode(e4m3, 448));
  EXPECT_EQ(reduced({e4m3, kSum, 1}, {{encode(e4m3, 448)}, {encode(e4m3, 18)}})[0], 0x7fu);
}

TEST(SmallFloats, AreRoundedOnceUnlessEveryNodeIsAskedFor) {
  // In f16, 2048 + 1 is 2048; in f32 the two ones are not lost.
  const DataType type = DataType::kF16;
  const std::vector<Codes> sources = {{encode(type, 2048)}, {encode(type, 1)}, {encode(type, 1)}, {encode(type, 0)}};
  EXPECT_EQ(reduced({type, kSum, 1}, sources)[0], encode(type, 2050));
  EXPECT_EQ(reduced({type, kSum, 1, false, true}, sources)[0], encode(type, 2048));
}

TEST(Average, DividesBeforeItRounds) {
  // The sum is beyond f16, the average is not.
  const Codes large = {encode(DataType::kF16, 60000)};
  EXPECT_EQ(reduced({DataType::kF16, kAvg, 2, true}, {large, large}), large);
}

TEST(Average, OfIntegersTruncatesTowardZero) {
  const auto average = [](DataType type, std::vector<Codes> sources, int ranks) {
    return reduced({type, kAvg, ranks, true}, sources)[0];
  };
  EXPECT_EQ(average(DataType::kI8, {{0xf9}, {0}}, 2), 0xfdu);  // -7 / 2 = -3
  EXPECT_EQ(average(DataType::kI8, {{0x80}, {0}}, 200), 0u);   // -128 / 200
  EXPECT_EQ(average(DataType::kU8, {{200}, {100}}, 2), 22u);   // (300 - 256) / 2
  EXPECT_EQ(average(DataType::kI32, {{0x80000000}, {0}}, 1), 0x80000000u);
  EXPECT_EQ(average(DataType::kI64, {{~std::uint64_t{0} - 6}, {0}}, 2), ~std::uint64_t{0} - 2);
  EXPECT_EQ(average(DataType::kU64, {{~std::uint64_t{0}}, {0}}, 5), 3689348814741910323u);
}

TEST(PreMultipliedSum, TakesWholeNumbersModuloTheIntegersRange) {
  const auto multiple = [](DataType type, std::uint64_t code, double scalar) {
    return reduced({type, ReduceOp::pre_mul_sum(scalar), 1}, {{code}}, 0)[0];
  };
  EXPECT_EQ(multiple(DataType::kU8, 3, 257), 3u);
  EXPECT_EQ(multiple(DataType::kI16, 5, -1), 0xfffbu);
  EXPECT_EQ(multiple(DataType::kU64, 1, 0x1p63), std::uint64_t{1} << 63);
  EXPECT_EQ(multiple(DataType::kU64, 3, 0x1p64), 0u);
  EXPECT_EQ(multiple(DataType::kI64, 1, -0x1p63), std::uint64_t{1} << 63);
}

TEST(PreMultipliedSum, RoundsTheProductAsAPeerWouldReceiveIt) {
  // 3 · 0.1 in f16, then plus itself as somebody else sends it: both operands must be the same number.
  const Reduction reduction{DataType::kF16, ReduceOp::pre_mul_sum(0.1), 2};
  const std::uint64_t three = 0x4200;
  const std::uint64_t product = reduced(reduction, {{three}}, 0)[0];
  EXPECT_EQ(reduced(reduction, {{three}, {product}}, 0), reduced(reduction, {{product}, {three}}, 1));
  EXPECT_EQ(reduced(reduction, {{three}, {product}}, 0), reduced(reduction, {{product}, {product}}, -1));
}

TEST(MinMax, OrdersMinusZeroBeforeZeroAndPropagatesNaN) {
  for (const DataType type : kFloats) {
    const std::uint64_t sign = sign_of(type);
    const std::uint64_t zero = 0, minus_zero = sign, quiet = canonical_nan(type);
    const std::uint64_t odd_nan = type == DataType::kF8E4M3 ? quiet : infinity(type) + 1;
    const Codes left = {zero, minus_zero, odd_nan, sign | odd_nan, infinity(type), sign | infinity(type), quiet, zero};
    const Codes right = {minus_zero,     zero,    zero,    infinity(type),
                         sign | odd_nan, odd_nan, odd_nan, sign | infinity(type)};
    on_every_target([&](const std::string& target) {
      EXPECT_EQ(reduced({type, kMin, 1}, {left, right}),
                (Codes{minus_zero, minus_zero, quiet, quiet, quiet, quiet, quiet, sign | infinity(type)}))
          << target << " " << name(type);
      EXPECT_EQ(reduced({type, kMax, 1}, {left, right}), (Codes{zero, zero, quiet, quiet, quiet, quiet, quiet, zero}))
          << target << " " << name(type);
    });
  }
}

TEST(NaN, IsCanonicalWhereverAnOperationMadeIt) {
  for (const DataType type : kFloats) {
    if (type == DataType::kF8E4M3) continue;  // has no infinities
    const Codes plus = {infinity(type)}, minus = {sign_of(type) | infinity(type)}, zero = {0};
    on_every_target([&](const std::string& target) {
      EXPECT_EQ(reduced({type, kSum, 1}, {plus, minus})[0], canonical_nan(type)) << target << " " << name(type);
      EXPECT_EQ(reduced({type, kProd, 1}, {minus, zero})[0], canonical_nan(type)) << target << " " << name(type);
    });
  }
}

TEST(NaN, IsCopiedBitByBitWhereNothingIsComputed) {
  const Codes payload = {0xffc12345, 0x7f800001};
  EXPECT_EQ(reduced({DataType::kF32, kSum, 1}, {payload}), payload);
  EXPECT_EQ(reduced({DataType::kF32, kAvg, 1, true}, {payload}), payload);
}

}  // namespace
}  // namespace tutti
