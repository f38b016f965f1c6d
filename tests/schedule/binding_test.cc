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

// The table of a rank: everybody's blocks as its output, its own as its input.
TEST(Binding, CoversEachBlockOfAVectorFormOnceWhereItLies) {
  const std::size_t counts[] = {0, 1, 47, 48, 49, 500};
  const std::size_t offsets[] = {7, 2000, 100, 900, 1000, 300};  // in any order, with gaps
  constexpr std::size_t kChunk = 48;
  for (std::uint16_t own = 0; own < 6; ++own) {
    const std::size_t zero = 0;
    const BlockTable table{{&counts[own], &zero, 1}, {counts, offsets, 6}};
    const Binding binding(table, kChunk, 16);
    EXPECT_EQ(binding.rounds(), 11u);  // of the longest block
    EXPECT_EQ(binding.elements(0, 0), kChunk);
    for (std::uint16_t block = 0; block < 6; ++block) {
      Step step;
      step.kind = StepKind::kRecv;
      step.destination_space = Space::kOutput;
      step.destination = block;
      std::size_t next = offsets[block];
      for (std::size_t round = 0; round < binding.rounds(); ++round) {
        const std::size_t elements = binding.elements(step, 0, round);
        ASSERT_LE(elements, kChunk);
        if (elements > 0) {
          ASSERT_EQ(binding.first(Space::kOutput, block, round), next);
        }
        next += elements;
      }
      EXPECT_EQ(next, offsets[block] + counts[block]);
    }
    Step step;
    step.kind = StepKind::kSend;
    step.source_space = Space::kInput;
    EXPECT_EQ(binding.elements(step, 0, 0), std::min(counts[own], kChunk));
  }
}

TEST(Binding, OfAVectorFormWithoutElementsRunsOneRound) {
  const std::size_t zeros[] = {0, 0, 0};
  const BlockTable table{{zeros, zeros, 3}, {zeros, zeros, 3}};
  const Binding binding(table, 64, 16);
  EXPECT_EQ(binding.rounds(), 1u);
}

// Nothing is multiplied or added in fewer than 64 bits.
TEST(Binding, CountsBlocksBeyond32Bits_F69) {
  for (const std::size_t count : {(std::size_t{1} << 31) + 3, std::size_t{1} << 33}) {
    for (const int chunks : {1, 3, 64}) {
      const Binding binding(count, chunks, std::size_t{1} << 18, 64);
      const auto last_block = static_cast<std::uint32_t>(2047 * chunks);
      std::size_t covered = 0;
      for (std::uint32_t place = 0; place < static_cast<std::uint32_t>(chunks); ++place) {
        const Binding::Extent extent = binding.extent(last_block + place, binding.rounds() - 1);
        EXPECT_LE(extent.first + extent.elements, 2048 * count);
        covered = std::max(covered, extent.first + extent.elements);
      }
      EXPECT_EQ(covered, 2048 * count);
      EXPECT_EQ(binding.extent(last_block, 0).first, 2047 * count);
    }
    const std::size_t counts[] = {count, 5, count};
    const std::size_t offsets[] = {3 * count, 0, count};
    const BlockTable table{{counts, offsets, 3}, {counts, offsets, 3}};
    const Binding binding(table, std::size_t{1} << 18, 64);
    Step step;
    step.kind = StepKind::kSend;
    step.source_space = Space::kInput;
    const std::size_t last = binding.rounds() - 1;
    EXPECT_EQ(binding.first(Space::kInput, 0, last) + binding.elements(step, 0, last), 4 * count);
  }
}

}  // namespace
}  // namespace tutti
