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

}  // namespace
}  // namespace tutti
