#include <gtest/gtest.h>

#include <random>

#include "communicator/values.h"
#include "support/ranks.h"

namespace tutti {
namespace {

using Kind = ReduceOp::Kind;

// Every (collective, type, op) that there is once, with everything else at random.
std::vector<TestCall> every_kind(int ranks, std::size_t most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TestCall> calls;
  const std::size_t counts[] = {1, 2, 3, 5, 7, 16, 17, 31, 64, 67, 97, 128, 257};
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (collective == Collective::kBarrier) continue;
    for (int t = 0; t < kDataTypes; ++t) {
      for (int o = 0; o < (reduces(collective) ? ReduceOp::kKinds : 1); ++o) {
        TestCall call{collective, static_cast<DataType>(t), static_cast<Kind>(o), 0, 0, false, 0};
        if (!supports(call.op, call.type)) continue;
        if (reduced() && random() % 3 != 0) continue;
        call.count = std::min(counts[random() % std::size(counts)], most);
        call.root = static_cast<int>(random() % static_cast<std::size_t>(ranks));
        call.in_place = random() % 2 == 0;
        call.seed = random();
        calls.push_back(call);
      }
    }
  }
  return calls;
}

// The misalignment is each rank's own: a multiple of the element, 0 to 15 bytes and beyond the cache line.
std::size_t misalignment(const TestCall& call, int rank) {
  const std::size_t size = element_size(call.type);
  return (call.seed + static_cast<std::size_t>(rank) * 5) % (16 / size) * size;
}

void perform_all(int ranks, const std::vector<TestCall>& calls, const RankSetup& setup) {
  prepare_reference();
  expect_ranks(
      ranks,
      [&calls](Communicator& communicator) {
        for (const TestCall& call : calls) {
          doing(describe(call));
          const std::string wrong = perform(communicator, call, misalignment(call, communicator.rank()));
          if (!wrong.empty()) throw std::runtime_error(wrong);
        }
      },
      setup);
}

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, PerformEveryCollectiveTypeAndOp_F74_F76_F80) {
  const int ranks = GetParam();
  const std::uint64_t seed = sample_seed() + static_cast<std::uint64_t>(ranks);
  std::printf("seed %llu (set TUTTI_TEST_SEED to change it)\n", static_cast<unsigned long long>(sample_seed()));
  perform_all(ranks, every_kind(ranks, ranks > 9 ? 67 : 257, seed), {});
}
INSTANTIATE_TEST_SUITE_P(Counts, Ranks, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33),
                         testing::PrintToStringParamName());

// Everything at random, larger sizes and all transports.
struct Sample {
  const char* name;
  std::vector<int> host_of;
  std::size_t most;
  std::size_t calls;
};

class RandomCalls : public testing::TestWithParam<Sample> {};
INSTANTIATE_TEST_SUITE_P(Placements, RandomCalls,
                         testing::Values(Sample{"TwoRanks", {0, 0}, 60'000, 120},
                                         Sample{"ThreeRanksOverTcp", {0, 1, 2}, 20'000, 80},
                                         Sample{"FiveRanksOnTwoHosts", {0, 1, 1, 0, 1}, 5'000, 120},
                                         Sample{"SevenRanks", {0, 0, 0, 0, 0, 0, 0}, 5'000, 100},
                                         Sample{"NineRanksOnFourHosts", {0, 0, 1, 2, 2, 2, 3, 0, 0}, 700, 120}),
                         [](const auto& info) { return info.param.name; });

TEST_P(RandomCalls, GiveWhatTheReferenceGives_F76_F80) {
  const Sample& sample = GetParam();
  const auto ranks = static_cast<int>(sample.host_of.size());
  std::mt19937_64 random(sample_seed() + sample.most);
  std::printf("seed %llu (set TUTTI_TEST_SEED to change it)\n", static_cast<unsigned long long>(sample_seed()));
  std::vector<TestCall> calls;
  while (calls.size() < (reduced() ? sample.calls / 4 : sample.calls)) {
    TestCall call;
    call.collective = static_cast<Collective>(random() % kCollectives);
    call.type = static_cast<DataType>(random() % kDataTypes);
    call.op = static_cast<Kind>(random() % ReduceOp::kKinds);
    if (!supports(call.op, call.type)) continue;
    // As many short as long ones.
    call.count = random() % (std::size_t{1} << random() % 17) % sample.most + 1;
    call.root = static_cast<int>(random() % static_cast<std::size_t>(ranks));
    call.in_place = random() % 2 == 0;
    call.seed = random();
    calls.push_back(call);
  }
  perform_all(ranks, calls, on_hosts(sample.host_of));
}

// What three ranks get out of three numbers, on every transport.
template <class T>
void expect_result(const std::vector<T>& contributions, ReduceOp op, T expected) {
  const auto ranks = static_cast<int>(contributions.size());
  for (const RankSetup& setup : {RankSetup{}, over_tcp()}) {
    expect_ranks(
        ranks,
        [&](Communicator& communicator) {
          T value = contributions[static_cast<std::size_t>(communicator.rank())];
          communicator.all_reduce(std::span<const T>(&value, 1), std::span<T>(&value, 1), op);
          EXPECT_EQ(value, expected);
        },
        setup);
  }
}

TEST(Integers, AverageByRanksAndTruncateTowardZero_F71) {
  expect_result<int>({1, 2, 4}, kAvg, 2);
  expect_result<int>({-1, -2, -4}, kAvg, -2);
  expect_result<std::uint8_t>({1, 2, 5}, kAvg, 2);
}

TEST(Integers, WrapBeforeTheyAreAveraged_F84) {
  expect_result<std::int8_t>({120, 100}, kAvg, -18);
  expect_result<std::uint8_t>({255, 255}, kAvg, 127);
}

TEST(Integers, Wrap_F72) {
  expect_result<std::int8_t>({120, 100}, kSum, -36);
  expect_result<std::int8_t>({100, 3}, kProd, 44);
  expect_result<std::uint16_t>({65'535, 2}, kSum, 1);
}

// bf16 has 256 and 258, but no 257: whoever rounds after every addition gets 256.
TEST(HalfFloats, AreSummedInFullWhereOnePassDoesIt_F73) {
  constexpr std::uint16_t k256 = 0x4380, k264 = 0x4384, k1 = 0x3F80;
  for (const char* algorithm : {"one_shot", "two_shot"}) {
    expect_ranks(
        8,
        [](Communicator& communicator) {
          std::uint16_t value = communicator.rank() == 3 ? k256 : k1;
          communicator.all_reduce(&value, &value, 1, DataType::kBF16, kSum);
          EXPECT_TRUE(value == k264) << std::hex << value;
        },
        with_config({{"TUTTI_ALGO", std::string("all_reduce:") + algorithm}}));
  }
}

}  // namespace
}  // namespace tutti
