#include "perf/data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "perf/collective.h"
#include "perf/machine.h"

namespace tutti::perf {
namespace {

using Kind = Mismatch::Kind;

constexpr int kRank = 1;
constexpr int kRanks = 4;
constexpr int kSource = 2;
constexpr std::size_t kCount = 5000;  // several periods

class DataTest : public testing::Test {
 protected:
  DataTest() : data_(DataType::kF32, ReduceOp::Kind::kSum, true, kRank, kRanks), segments_{{0, kCount, kSource, 0}} {
    Data source(DataType::kF32, ReduceOp::Kind::kSum, true, kSource, kRanks);
    source.fill(output_.data(), kCount, 1);
    source.fill(previous_.data(), kCount, 0);
    data_.prepare(segments_);
  }

  Verdict check() {
    Verdict verdict;
    data_.check(output_.data(), segments_, 1, verdict);
    return verdict;
  }

  Data data_;
  std::vector<Segment> segments_;
  std::vector<float> output_ = std::vector<float>(kCount);
  std::vector<float> previous_ = std::vector<float>(kCount);
};

TEST_F(DataTest, AcceptsWhatTheSourcePutIn) { EXPECT_EQ(check().wrong, 0u); }

TEST_F(DataTest, TellsWhatWasNeverWritten) {
  output_[4321] = 0;
  const Verdict verdict = check();
  ASSERT_EQ(verdict.wrong, 1u);
  EXPECT_EQ(verdict.first[0].kind, Kind::kZero);
  EXPECT_EQ(verdict.first[0].element, 4321u);
  EXPECT_EQ(verdict.first[0].rank, kRank);
}

TEST_F(DataTest, TellsWhatAnEarlierCallLeftBehind) {
  output_[17] = previous_[17];
  const Verdict verdict = check();
  ASSERT_EQ(verdict.wrong, 1u);
  EXPECT_EQ(verdict.first[0].kind, Kind::kStale);
}

TEST_F(DataTest, CountsAllAndExplainsTheFirst) {
  for (float& value : output_) value += 1;
  const Verdict verdict = check();
  EXPECT_EQ(verdict.wrong, kCount);
  EXPECT_EQ(verdict.explained, Verdict::kExplained);
  EXPECT_EQ(verdict.first[0].kind, Kind::kOther);
  EXPECT_EQ(verdict.first[3].element, 3u);
}

TEST_F(DataTest, FindsDataThatWentToTheNextChunk) {
  std::copy(output_.begin() + 1024, output_.begin() + 2048, output_.begin() + 2048);
  EXPECT_GT(check().wrong, 900u);
}

TEST_F(DataTest, FindsAnotherRanksData) {
  Data(DataType::kF32, ReduceOp::Kind::kSum, true, 3, kRanks).fill(output_.data(), kCount, 1);
  EXPECT_GT(check().wrong, kCount * 9 / 10);
}

TEST_F(DataTest, SegmentsBeginAnywhereInTheSource) {
  segments_ = {{0, kCount - 1500, kSource, 1500}};
  std::move(output_.begin() + 1500, output_.end(), output_.begin());
  EXPECT_EQ(check().wrong, 0u);
}

TEST(Data, AveragesMayBeOffByTheTolerance) {
  Data data(DataType::kF32, ReduceOp::Kind::kAvg, true, 0, 3);
  const std::vector<Segment> segments{{0, 1, kReduction, 0}};
  data.prepare(segments);
  const Pattern pattern(DataType::kF32, ReduceOp::Kind::kAvg, 3, kSeed);
  for (const std::uint32_t off : {0u, 2u, 3u}) {
    const std::uint32_t value = static_cast<std::uint32_t>(pattern.reduction(0)) + off;
    Verdict verdict;
    data.check(&value, segments, 0, verdict);
    EXPECT_EQ(verdict.wrong, off > 2 ? 1u : 0u);
  }
}

TEST(Shapes, BlocksAreMultiplesOfTheGranule) {
  EXPECT_EQ(divided(100, 3, 4).count, 32u);
  EXPECT_EQ(divided(100, 3, 4).send, 96u);
  EXPECT_EQ(divided(2, 2, 4).count, 0u);
  EXPECT_EQ(divided(2, 2, 1).count, 1u);
  EXPECT_EQ(divided(100, 3, 16).count, 32u);
  EXPECT_EQ(whole(100, 3, 4).recv, 100u);
}

TEST(Shapes, BlocksOfAllAreInRankOrder) {
  const std::vector<Segment> blocks = blocks_of_all(10, 3, 20);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[2].offset, 20u);
  EXPECT_EQ(blocks[2].source, 2);
  EXPECT_EQ(blocks[2].first, 20u);
}

TEST(Memory, IsSharedByTheRanksOfAMachine) {
  EXPECT_EQ(largest_size({{1, 8000}}), 3000u);
  EXPECT_EQ(largest_size({{1, 8000}, {1, 8000}, {2, 8000}}), 1500u);
  EXPECT_EQ(largest_size({{1, 8000}, {2, 800}}), 300u);
  EXPECT_GT(available_memory(), 0u);
}

}  // namespace
}  // namespace tutti::perf
