#include "schedule/binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

class BindingOf : public testing::TestWithParam<std::size_t> {};  // count

TEST_P(BindingOf, CoversEveryElementOfABlockExactlyOnce) {
  const std::size_t count = GetParam();
  constexpr std::size_t kGranule = 16;
  constexpr std::uint32_t kBlock = 2;
  for (const int chunks : {1, 2, 3, 7}) {
    for (const std::size_t chunk_elements : {std::size_t{16}, std::size_t{48}, std::size_t{1024}}) {
      const Binding binding(count, chunks, chunk_elements, kGranule);
      std::vector<int> covered(count, 0);
      for (std::size_t round = 0; round < binding.rounds(); ++round) {
        for (std::uint32_t place = 0; place < static_cast<std::uint32_t>(chunks); ++place) {
          const std::uint32_t chunk = kBlock * static_cast<std::uint32_t>(chunks) + place;
          const Binding::Extent extent = binding.extent(chunk, round);
          EXPECT_EQ(extent.elements, binding.elements(place, round));
          EXPECT_LE(extent.elements, chunk_elements);
          ASSERT_GE(extent.first, kBlock * count);
          ASSERT_LE(extent.first + extent.elements, (kBlock + 1) * count);
          for (std::size_t i = 0; i < extent.elements; ++i) ++covered[extent.first - kBlock * count + i];
          if (extent.elements > 0) {
            EXPECT_EQ((extent.first - kBlock * count) % kGranule, 0u) << "two chunks share a line";
          }
        }
      }
      EXPECT_TRUE(std::all_of(covered.begin(), covered.end(), [](int times) { return times == 1; }));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, BindingOf, testing::Values(0, 1, 2, 15, 16, 17, 47, 48, 49, 97, 336, 1000, 7919));

TEST(Binding, RunsOneRoundOfEmptyChunksForNoElements) {
  const Binding binding(0, 3, 64, 16);
  EXPECT_EQ(binding.rounds(), 1u);
  for (std::uint32_t chunk = 0; chunk < 9; ++chunk) EXPECT_EQ(binding.extent(chunk, 0).elements, 0u);
}

TEST(Binding, CutsTheLastRoundEvenlyInLines) {
  const Binding binding(100, 3, 64, 16);
  EXPECT_EQ(binding.rounds(), 1u);
  EXPECT_EQ(binding.elements(0, 0), 48u);
  EXPECT_EQ(binding.elements(1, 0), 48u);
  EXPECT_EQ(binding.elements(2, 0), 4u);
}

TEST(Binding, ScratchChunksAreFullSizedAndDoNotOverlap) {
  const Binding binding(100, 3, 64, 16);
  EXPECT_EQ(binding.scratch_first(0), 0u);
  EXPECT_EQ(binding.scratch_first(5), 320u);
}

TEST(Binding, CountsBeyond32Bits) {
  constexpr std::size_t kCount = std::size_t{5} << 32;
  const Binding binding(kCount, 4, std::size_t{1} << 17, 16);
  EXPECT_EQ(binding.rounds(), kCount >> 19);
  const Binding::Extent end = binding.extent(7, binding.rounds() - 1);
  EXPECT_EQ(end.first + end.elements, 2 * kCount);
}

}  // namespace
}  // namespace tutti
