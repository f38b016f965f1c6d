#include "support/float_modes.h"

#include <gtest/gtest.h>

#include "reduce/ready_reduction.h"
#include "reduce/sources.h"

namespace tutti {
namespace {

// Every fourth element may be a subnormal number, an infinity or a NaN; sums of the others are rounded.
constexpr std::size_t kElements = 301;

std::vector<ReduceOp> operations(DataType type) {
  std::vector<ReduceOp> ops = {kSum, kProd, kMin, kMax, kAvg, ReduceOp::pre_mul_sum(is_floating(type) ? 1.0 / 3 : -3)};
  if (!is_floating(type)) ops.push_back(kBxor);
  return ops;
}

std::vector<Codes> sources_of(DataType type, int count) {
  std::mt19937_64 random(static_cast<unsigned>(type) * 100 + static_cast<unsigned>(count));
  std::vector<Codes> sources;
  for (int s = 0; s < count; ++s) sources.push_back(random_codes(type, kElements, random));
  return sources;
}

class FloatModes : public testing::TestWithParam<FloatMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, FloatModes, testing::ValuesIn(float_modes()),
                         [](const auto& info) { return info.param.name; });

TEST_P(FloatModes, ChangeNoResultAndKeepTheirFlags_F83) {
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    for (const int count : {1, 2, 3, 5, 9, 17}) {
      const std::vector<Codes> sources = sources_of(type, count);
      for (const ReduceOp op : operations(type)) {
        for (const bool every_node : {false, true}) {
          const Reduction reduction{type, op, count == 1 ? 3 : count, true, every_node};
          on_every_target([&](const std::string& target) {
            SCOPED_TRACE(target + " " + to_string(reduction) + " of " + std::to_string(count));
            const Codes wanted = reduced(reduction, sources, 0);
            Codes got;
            unsigned long before = 0, after = 0;
            {
              const InFloatMode mode(GetParam());
              before = float_state();
              got = reduced(reduction, sources, 0);
              after = float_state();
            }
            ASSERT_EQ(got, wanted);
            ASSERT_EQ(before, after);
          });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(FloatModes, ChangeNoResultOfReductionsThatAreLookedUpBefore_F83) {
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    for (const int count : {2, 3, 9}) {
      std::vector<std::vector<std::byte>> memory;
      std::vector<const void*> sources;
      for (const Codes& codes : sources_of(type, count)) memory.push_back(packed(type, codes));
      for (const auto& source : memory) sources.push_back(source.data());
      for (const ReduceOp op : operations(type)) {
        ReadyReduction ready({type, op, count, true, false}, count);
        std::vector<std::byte> wanted(kElements * element_size(type)), got(wanted);
        ready.run(sources.data(), wanted.data(), kElements);
        unsigned long before = 0, after = 0;
        {
          const InFloatMode mode(GetParam());
          before = float_state();
          ready.run(sources.data(), got.data(), kElements);
          after = float_state();
        }
        ASSERT_EQ(got, wanted) << name(type) << " " << name(op) << " of " << count;
        ASSERT_EQ(before, after) << name(type) << " " << name(op) << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
