#include "reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/sync.h"
#include "reduce/guarded_memory.h"
#include "reduce/sources.h"

namespace tutti {
namespace {

using Kind = ReduceOp::Kind;

struct Case {
  Reduction reduction;
  int mapped = -1;
};

// All ops of a type, with and without their maps.
std::vector<Case> cases_of(DataType type, int sources) {
  const double scalar = is_floating(type) ? 1.0 / 3 : -3;
  std::vector<Case> cases = {{{type, kSum, 1}},
                             {{type, kProd, 1}},
                             {{type, kMin, 1}},
                             {{type, kMax, 1}},
                             {{type, kAvg, sources, true}},
                             {{type, kAvg, 201, true}},
                             {{type, kAvg, 3, false}},
                             {{type, ReduceOp::pre_mul_sum(scalar), 1}, sources / 2},
                             {{type, ReduceOp::pre_mul_sum(scalar), 1}, -1}};
  if (!is_floating(type)) {
    cases.insert(cases.end(), {{{type, kBand, 1}}, {{type, kBor, 1}}, {{type, kBxor, 1}}});
  }
  if (is_floating(type) && element_size(type) < 4) {
    const std::vector<Case> once = cases;
    for (Case rounded : once) {
      rounded.reduction.round_every_node = true;
      cases.push_back(rounded);
    }
  }
  return cases;
}

// Calls reduce() with buffers that end or begin at a page without access, or lie at odd places; in place or not; with
// one destination or two. Checks results, sources and the bytes around.
class Workbench {
 public:
  static constexpr std::size_t kMaxElements = 4500;

  explicit Workbench(int sources) {
    for (int i = 0; i < sources + 2; ++i) memory_.push_back(std::make_unique<GuardedMemory>(kMaxElements * 8 + 256));
  }

  void check(const Case& c, const std::vector<std::vector<std::byte>>& sources, const std::vector<std::byte>& expected,
             std::size_t elements, unsigned variant) {
    const std::size_t size = element_size(c.reduction.type);
    const std::size_t bytes = elements * size;
    const std::size_t count = sources.size();

    std::vector<std::byte*> places;
    for (std::size_t i = 0; i < count + 2; ++i) {
      const GuardedMemory& memory = *memory_[i];
      const std::size_t offset = size * ((i * 3 + variant) % 17);
      places.push_back(variant % 3 == 0   ? memory.end() - bytes
                       : variant % 3 == 1 ? memory.begin()
                                          : memory.begin() + kMargin + offset);
      std::byte* from = std::max(memory.begin(), places[i] - kMargin);
      std::fill(from, std::min(memory.end(), places[i] + bytes + kMargin), kUntouched);
      if (i < count) std::copy_n(sources[i].data(), bytes, places[i]);
    }
    std::vector<const void*> pointers(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count));
    // Where the results go: 0..count-1 is in place.
    const std::size_t dst = variant / 3 % 2 == 0 ? count : variant % count;
    std::size_t dst2 = variant / 6 % 3 == 0 ? kNone : variant / 6 % 3 == 1 ? count + 1 : (variant + 1) % count;
    if (dst2 == dst) dst2 = kNone;

    reduce(c.reduction, pointers.data(), static_cast<int>(count), c.mapped, places[dst],
           dst2 == kNone ? nullptr : places[dst2], elements,
           variant / 18 % 2 == 0 ? StoreKind::kOrdinary : StoreKind::kStreaming,
           variant / 36 % 2 == 0 ? StoreKind::kOrdinary : StoreKind::kStreaming);
    finish_streaming_stores();

    for (std::size_t i = 0; i < count + 2; ++i) {
      const bool is_result = i == dst || i == dst2;
      if (i >= count && !is_result) continue;
      const std::vector<std::byte>& wanted = is_result ? expected : sources[i];
      ASSERT_EQ(first_difference(places[i], wanted.data(), bytes), bytes)
          << (is_result ? "result" : "source") << " in buffer " << i << ", variant " << variant;
      for (std::byte* at = std::max(memory_[i]->begin(), places[i] - kMargin); at < places[i]; ++at) {
        ASSERT_EQ(*at, kUntouched) << places[i] - at << " bytes before buffer " << i;
      }
      for (std::byte* at = places[i] + bytes; at < std::min(memory_[i]->end(), places[i] + bytes + kMargin); ++at) {
        ASSERT_EQ(*at, kUntouched) << at - places[i] - bytes << " bytes after buffer " << i;
      }
    }
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::ptrdiff_t kMargin = 64;
  static constexpr std::byte kUntouched{0xa5};

  static std::size_t first_difference(const std::byte* a, const std::byte* b, std::size_t bytes) {
    return static_cast<std::size_t>(std::mismatch(a, a + bytes, b).first - a);
  }

  std::vector<std::unique_ptr<GuardedMemory>> memory_;
};

void check_all(DataType type, const std::vector<int>& source_counts, const std::vector<std::size_t>& sizes) {
  std::mt19937_64 random(static_cast<unsigned>(type) + 1);
  Workbench workbench(*std::max_element(source_counts.begin(), source_counts.end()));
  unsigned variant = 0;
  for (const int count : source_counts) {
    for (const Case& c : cases_of(type, count)) {
      std::vector<Codes> codes;
      std::vector<std::vector<std::byte>> sources;
      for (int s = 0; s < count; ++s) {
        codes.push_back(random_codes(type, sizes.back(), random));
        sources.push_back(packed(type, codes.back()));
      }
      const std::vector<std::byte> wanted = packed(type, expected(c.reduction, codes, c.mapped));
      on_every_target([&](const std::string& target) {
        SCOPED_TRACE(target + " " + to_string(c.reduction) + " of " + std::to_string(count) + " sources");
        for (const std::size_t size : sizes) {
          workbench.check(c, sources, wanted, size, variant++);
          if (testing::Test::HasFatalFailure()) FAIL() << size << " elements";
        }
        ++variant;
      });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

class EveryType : public testing::TestWithParam<int> {
 public:
  DataType type() const { return static_cast<DataType>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Reduce, EveryType, testing::Range(0, kDataTypes),
                         [](const auto& info) { return name(static_cast<DataType>(info.param)); });

TEST_P(EveryType, GivesTheReferencesBitsForAnyOpCountSizeAndPlace) {
  check_all(type(), {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33},
            {0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 66, 67, 127, 129, 1000});
}

TEST_P(EveryType, JoinsBlocksWithoutASeam) { check_all(type(), {2, 5, 9}, {511, 512, 513, 2047, 2048, 2049, 4500}); }

TEST_P(EveryType, MapsAsAReductionOfOneSourceDoes) {
  std::mt19937_64 random(7);
  const Codes codes = random_codes(type(), 300, random);
  for (const Case& c : cases_of(type(), 1)) {
    for (const bool first : {false, true}) {
      std::vector<std::byte> source = packed(type(), codes);
      std::vector<std::byte> dst(source.size());
      const Codes wanted = expected(c.reduction, {codes}, first ? 0 : -1);
      map_elements(c.reduction, first, source.data(), dst.data(), codes.size());
      EXPECT_EQ(unpacked(type(), dst.data(), codes.size()), wanted) << to_string(c.reduction);
      map_elements(c.reduction, first, source.data(), source.data(), codes.size());
      EXPECT_EQ(source, dst) << to_string(c.reduction) << " in place";
    }
  }
}

TEST(Reduce, EvaluatesTheSameTreeForAnyNumberOfSources) {
  std::mt19937_64 random(11);
  const Reduction sum{DataType::kF32, kSum, 1};
  const Reduction rounded{DataType::kBF16, kSum, 1, false, true};
  for (int count = 1; count <= kMaxSources; count += count < 70 ? 1 : 53) {
    for (const Reduction& reduction : {sum, rounded}) {
      std::vector<Codes> sources;
      for (int s = 0; s < count; ++s) sources.push_back(random_codes(reduction.type, 9, random));
      ASSERT_EQ(reduced(reduction, sources), expected(reduction, sources, -1)) << count << " sources";
    }
  }
  const std::vector<Codes> ones(kMaxSources, Codes(9, 1));
  EXPECT_EQ(reduced({DataType::kU16, kSum, 1}, ones), Codes(9, kMaxSources));
}

TEST(Reduce, KnowsWhichMapsChangeAnything) {
  EXPECT_TRUE(first_changes(ReduceOp::pre_mul_sum(2)));
  EXPECT_FALSE(first_changes(ReduceOp::pre_mul_sum(1)));
  EXPECT_FALSE(first_changes(kSum));
  EXPECT_TRUE(last_changes(kAvg, 2));
  EXPECT_FALSE(last_changes(kAvg, 1));
  EXPECT_FALSE(last_changes(kSum, 2));
}

}  // namespace
}  // namespace tutti
