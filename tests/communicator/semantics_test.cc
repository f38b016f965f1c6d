// What collectives mean, over the products that users have stumbled upon: every algorithm, root, misalignment and
// number of ranks.
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "base/clock.h"
#include "collectives/registry.h"
#include "communicator/values.h"
#include "executor/signature.h"
#include "schedule/placement.h"
#include "support/ranks.h"

namespace tutti {
namespace {

using Kind = ReduceOp::Kind;

void expect_performed(Communicator& communicator, const TestCall& call, std::size_t misalignment) {
  doing(describe(call));
  const std::string wrong = perform(communicator, call, misalignment);
  if (!wrong.empty()) throw std::runtime_error(wrong);
}

// bf16 has 256, 258 … 264, but no odd numbers there: an addition of 1 is lost or not, by order. All ranks must have
// lost the same, and a pass over all contributions loses nothing.
class HalfSums : public testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Placements, HalfSums,
                         testing::Values(std::vector{0, 0, 0, 0, 0, 0, 0, 0}, std::vector{0, 0, 0, 1, 1, 1, 1, 1},
                                         std::vector{0, 1, 2, 3, 4, 5, 6, 7}),
                         [](const auto& info) { return "On" + std::to_string(info.param.back() + 1) + "Hosts"; });

TEST_P(HalfSums, AreTheSameBitsOnAllRanksWithEveryAlgorithm_F73) {
  constexpr std::uint16_t k256 = 0x4380, k264 = 0x4384, k1 = 0x3F80;
  constexpr std::size_t kCount = 203;
  const std::vector<int>& host_of = GetParam();
  const Placement placement(host_of);
  int algorithms_run = 0;
  for (const Algorithm& row : algorithms()) {
    if (row.collective != Collective::kAllReduce || !row.applies(placement.layout(0))) continue;
    SCOPED_TRACE(row.name);
    const bool in_one_pass = row.name == "one_shot" || row.name == "two_shot";
    for (const int holder : {0, 3, 7}) {
      std::vector<std::vector<std::uint16_t>> results(host_of.size());
      RankSetup setup = on_hosts(host_of);
      setup.options.config["TUTTI_ALGO"] = "all_reduce:" + std::string(row.name);
      expect_ranks(
          static_cast<int>(host_of.size()),
          [&](Communicator& communicator) {
            std::vector<std::uint16_t> values(kCount, communicator.rank() == holder ? k256 : k1);
            communicator.all_reduce(values.data(), values.data(), kCount, DataType::kBF16, kSum);
            results[static_cast<std::size_t>(communicator.rank())] = values;
          },
          setup);
      for (const auto& result : results) {
        EXPECT_TRUE(result == results.front());
        for (const std::uint16_t value : result) {
          EXPECT_TRUE(value >= k256 && value <= k264) << std::hex << value;
          EXPECT_TRUE(!in_one_pass || value == k264) << std::hex << value;
        }
      }
      if (reduced()) break;
    }
    ++algorithms_run;
  }
  EXPECT_GE(algorithms_run, 6);
}

class EveryRoot : public testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Placements, EveryRoot,
                         testing::Values(std::vector{0, 0, 0, 0, 0}, std::vector{0, 1, 2, 3, 4},
                                         std::vector{0, 0, 1, 1, 0}),
                         [](const auto& info) {
                           std::string name = "Hosts";
                           for (const int host : info.param) name += std::to_string(host);
                           return name;
                         });

TEST_P(EveryRoot, InPlaceAndOutOfPlace_F74) {
  const auto ranks = static_cast<int>(GetParam().size());
  prepare_reference();
  expect_ranks(
      ranks,
      [ranks](Communicator& communicator) {
        for (int c = 0; c < kCollectives; ++c) {
          const auto collective = static_cast<Collective>(c);
          for (int root = 0; root < (is_rooted(collective) ? ranks : 1); ++root) {
            for (const std::size_t count : {5, 2000}) {
              for (const bool in_place : {false, true}) {
                const TestCall call{collective, DataType::kI32, Kind::kSum, count, root, in_place, 3 + count};
                expect_performed(communicator, call, 0);
              }
            }
          }
        }
      },
      on_hosts(GetParam()));
}

// Every rank has a misalignment of its own, which moves on with each count.
TEST(Misaligned, BuffersOfAllShortLengthsGiveRightResults_F76) {
  prepare_reference();
  expect_ranks(3, [](Communicator& communicator) {
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kReduceScatterV}) {
      for (const DataType type : {DataType::kU8, DataType::kBF16, DataType::kF32}) {
        const std::size_t size = element_size(type);
        for (std::size_t shift = 0; shift < 16; shift += size) {
          for (std::size_t count = 1; count <= 67; count += reduced() ? 13 : 1) {
            const TestCall call{collective, type, Kind::kSum, count, 0, count % 2 == 0, shift * 100 + count};
            const auto turned = shift + 5 * size * static_cast<std::size_t>(communicator.rank());
            expect_performed(communicator, call, turned % 16);
          }
        }
      }
    }
  });
}

// The result says where each element came from: a shard that is shifted, or a tail that is lost, shows.
TEST(Shards, OfReduceScatterAreThoseOfTheirRank_F78) {
  for (const RankSetup& shape : {RankSetup{}, over_tcp()}) {
    RankSetup setup = shape;
    setup.options.config["TUTTI_CHUNK_BYTES"] = "1024";
    expect_ranks(
        3,
        [](Communicator& communicator) {
          const std::size_t whole = 3 * 256;  // ranks times the elements of a chunk
          for (const std::size_t count : {std::size_t{1}, whole - 1, whole, whole + 1, 4 * whole - 1, 4 * whole + 1}) {
            const auto value = [](int rank, std::size_t index) { return rank * 10'000 + static_cast<int>(index); };
            std::vector<int> input(3 * count), output(count, -1);
            for (std::size_t i = 0; i < input.size(); ++i) input[i] = value(communicator.rank(), i);
            communicator.reduce_scatter(std::span<const int>(input), std::span(output));
            for (std::size_t i = 0; i < count; ++i) {
              const std::size_t index = static_cast<std::size_t>(communicator.rank()) * count + i;
              ASSERT_EQ(output[i], value(0, index) + value(1, index) + value(2, index)) << "element " << i;
            }
          }
        },
        setup);
  }
}

class RanksFrom : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ones, RanksFrom, testing::Values(1, 12, 23), testing::PrintToStringParamName());

// Eleven numbers of ranks a test; each runs every collective with random counts.
TEST_P(RanksFrom, OnToElevenMoreRunEveryCollective_F80) {
  prepare_reference();
  std::printf("seed %llu (set TUTTI_TEST_SEED to change it)\n", static_cast<unsigned long long>(sample_seed()));
  for (int ranks = GetParam(); ranks < GetParam() + 11; ranks += reduced() ? 5 : 1) {
    std::mt19937_64 random(sample_seed() + static_cast<std::uint64_t>(ranks));
    std::vector<TestCall> calls;
    for (int seeds = 0; seeds < 10; ++seeds) {
      for (int c = 0; c < kCollectives; ++c) {
        TestCall call{static_cast<Collective>(c), DataType::kI64, Kind::kSum, 0, 0, false, random()};
        call.count = 1 + random() % (seeds < 8 ? 40 : 700);
        call.root = static_cast<int>(random() % static_cast<std::size_t>(ranks));
        call.in_place = random() % 2 == 0;
        calls.push_back(call);
      }
      if (ranks > 20 && seeds > 3) break;
    }
    expect_ranks(ranks, [&calls](Communicator& communicator) {
      for (const TestCall& call : calls) expect_performed(communicator, call, 0);
    });
  }
}

// Whatever the calling thread may not use is not used.
class OneProcessor {
 public:
  OneProcessor() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && number_ < 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) number_ = cpu;
    }
    CPU_SET(number_, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OneProcessor() { sched_setaffinity(0, sizeof(before_), &before_); }
  int number() const { return number_; }

 private:
  cpu_set_t before_;
  int number_ = -1;
};

#if !defined(__SANITIZE_THREAD__)  // the thread sanitizer has a thread of its own from the start
std::set<std::filesystem::path> threads() {
  using Directory = std::filesystem::directory_iterator;
  std::set<std::filesystem::path> paths;
  for (const auto& thread : Directory("/proc/self/task")) paths.insert(thread.path());
  return paths;
}

// The processors of this process's threads but for some, as the system lists them: "0", "0-1".
std::set<std::string> processors_of_threads(const std::set<std::filesystem::path>& others) {
  std::set<std::string> lists;
  for (const auto& thread : threads()) {
    if (others.contains(thread)) continue;
    std::ifstream status(thread / "status");
    for (std::string word; status >> word;) {
      if (word == "Cpus_allowed_list:" && status >> word) lists.insert(word);
    }
  }
  return lists;
}
#endif

// Eight ranks that wait by spinning would take a time slice for each hop.
TEST(OneProcessor, IsEnoughForEightRanksAndIsNotLeft_F82) {
#if !defined(__SANITIZE_THREAD__)
  const auto before = threads();  // ids that earlier tests have made, and nobody has used, keep the control thread
#endif
  const OneProcessor processor;
  const auto begin = Clock::now();
  expect_ranks(8, [&](Communicator& communicator) {
    float value = 0;
    for (int i = 0; i < 200; ++i) {
      value = 1;
      communicator.all_reduce(&value, &value, 1, DataType::kF32, kSum);
      ASSERT_EQ(value, 8);
    }
#if !defined(__SANITIZE_THREAD__)
    EXPECT_EQ(processors_of_threads(before), (std::set<std::string>{std::to_string(processor.number())}));
#endif
    communicator.barrier();
  });
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace tutti
