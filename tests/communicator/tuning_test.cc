#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "support/ranks.h"

namespace tutti {
namespace {

// A file that is gone with the test.
class File {
 public:
  File(const std::string& name, const std::string& text) : path_(testing::TempDir() + "tutti_" + name) {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string choosing(const std::string& algorithm) {
  return R"({"tutti_tuning":1,"choices":[{"collective":"all_reduce","ranks":3,"hosts":1,"from_bytes":0,"algorithm":")" +
         algorithm + "\"}]}";
}

void expect_sum(Communicator& communicator) {
  int sum = 1;
  communicator.all_reduce(&sum, &sum, 1, DataType::kI32, kSum);
  EXPECT_EQ(sum, communicator.ranks());
}

TEST(TuningFile, DecidesForACommunicatorAndThoseThatAreSplitOffIt) {
  const File file("tuning_ring.json", choosing("ring"));
  const File other("tuning_tree.json", choosing("double_tree"));
  expect_ranks(
      3,
      [&](Communicator& world) {
        EXPECT_EQ(world.plan("all_reduce", 1, DataType::kI32), "ring over shm");
        expect_sum(world);
        auto child = world.split(0, world.rank());
        EXPECT_EQ(child->plan("all_reduce", 1, DataType::kI32), "ring over shm");
        expect_sum(*child);
        Options options;
        options.config = {{"TUTTI_TUNING_FILE", other.path()}};
        auto own = world.split(0, world.rank(), options);
        EXPECT_EQ(own->plan("all_reduce", 1, DataType::kI32), "double_tree over shm");
        expect_sum(*own);
      },
      with_config({{"TUTTI_TUNING_FILE", file.path()}}));
}

TEST(TuningFile, ThatIsMalformedOnOneRankEndsTheMeetingForAll) {
  const File good("tuning_good.json", choosing("ring"));
  const File bad("tuning_bad.json", choosing("rng"));
  RankSetup setup;
  setup.adapt = [&](int rank, Options& options) {
    options.config["TUTTI_TUNING_FILE"] = rank == 1 ? bad.path() : good.path();
  };
  const auto ends = run_ranks(
      3, [](Communicator&) { ADD_FAILURE() << "there is no communicator"; }, setup);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    ASSERT_TRUE(ends[rank].error) << ends[rank].text;
    EXPECT_EQ(ends[rank].error->code(), rank == 1 ? ErrorCode::kInvalidSetting : ErrorCode::kRemote);
    EXPECT_NE(ends[rank].text.find("choices[0].algorithm must be one of"), std::string::npos) << ends[rank].text;
    EXPECT_NE(ends[rank].text.find(bad.path()), std::string::npos) << ends[rank].text;
  }
}

TEST(TuningFile, MustSayTheSameOnAllRanksWhereverItLies) {
  const File ring("tuning_a.json", choosing("ring"));
  const File same("tuning_b.json", choosing("ring"));
  const File tree("tuning_c.json", choosing("double_tree"));
  const auto meet = [](const std::string& of_last) {
    return [of_last](const std::string& of_others) {
      RankSetup setup;
      setup.adapt = [=](int rank, Options& options) {
        options.config["TUTTI_TUNING_FILE"] = rank == 2 ? of_last : of_others;
      };
      return setup;
    };
  };
  expect_ranks(3, expect_sum, meet(same.path())(ring.path()));
  for (const std::string& last : {tree.path(), std::string()}) {
    const auto ends = run_ranks(3, expect_sum, meet(last)(ring.path()));
    for (const RankEnd& end : ends) {
      ASSERT_TRUE(end.error) << end.text;
      EXPECT_EQ(end.error->code(), ErrorCode::kMismatch);
      EXPECT_NE(end.text.find("different tuning files"), std::string::npos) << end.text;
      EXPECT_NE(end.text.find("rank 2"), std::string::npos) << end.text;
    }
  }
}

TEST(TuningFile, ThatIsMalformedFailsASplitAndLeavesTheParent) {
  const File bad("tuning_split.json", "{");
  expect_ranks(2, [&](Communicator& world) {
    Options options;
    if (world.rank() == 1) options.config = {{"TUTTI_TUNING_FILE", bad.path()}};
    try {
      world.split(0, world.rank(), options);
      ADD_FAILURE() << "was split";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), world.rank() == 1 ? ErrorCode::kInvalidSetting : ErrorCode::kRemote) << error.what();
    }
    expect_sum(world);
  });
}

// Nothing but speed depends on where ranks run.
TEST(Cpuset, MayChangeWhileACommunicatorIsUsed) {
  expect_ranks(2, [](Communicator& world) {
    cpu_set_t before;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    }
    std::vector<float> values(100'000, 1);
    for (const cpu_set_t* set : {&before, &one, &before}) {
      ASSERT_EQ(::sched_setaffinity(0, sizeof(*set), set), 0);
      for (int call = 0; call < 5; ++call) {
        expect_sum(world);
        std::vector<float> sums(values.size());
        world.all_reduce(values.data(), sums.data(), values.size(), DataType::kF32, kSum);
        EXPECT_EQ(std::ranges::count(sums, 2.0f), static_cast<std::ptrdiff_t>(sums.size()));
      }
    }
    auto child = world.split(0, world.rank());
    expect_sum(*child);
  });
}

}  // namespace
}  // namespace tutti
