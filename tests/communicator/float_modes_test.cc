#include "support/float_modes.h"

#include <gtest/gtest.h>

#include "communicator/values.h"
#include "support/ranks.h"
#include "tutti/stream.h"

namespace tutti {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = ReduceOp::Kind;

constexpr int kRanks = 3;

// Values of which most are subnormal, or make sums that are rounded.
Bytes inputs(DataType type, int rank, std::size_t count) {
  Bytes values(count * element_size(type));
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - 8 * element_size(type));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t random = (i + 1) * 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(rank + 3);
    std::uint64_t code = (random >> 20) & all;
    if (type == DataType::kF32) code = i % 2 == 0 ? code % 0x400000 : 0x3f800000 + code % 0x800000;
    if (type == DataType::kF64) code = i % 2 == 0 ? code % (1ull << 51) : 0x3ff0000000000000 + code % (1ull << 52);
    if (type == DataType::kBF16) code %= 0x4000;
    store_code(type, values.data(), i, code);
  }
  return values;
}

// What this rank's calls give, one after the other.
Bytes results(Communicator& communicator, Stream stream) {
  Bytes all;
  for (const DataType type :
       {DataType::kF32, DataType::kF64, DataType::kF16, DataType::kBF16, DataType::kF8E5M2, DataType::kI32}) {
    for (const ReduceOp op : {kSum, kAvg, kProd, kMax, ReduceOp::pre_mul_sum(2)}) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{31}, std::size_t{1000}, std::size_t{70'000}}) {
        if (count > 1000 && (op.kind() != Kind::kSum || reduced())) continue;
        const Bytes input = inputs(type, communicator.rank(), count);
        for (int repeat = 0; repeat < 3; ++repeat) {  // the second and third are kept calls
          Bytes output(input.size());
          communicator.all_reduce(input.data(), output.data(), count, type, op, stream).wait();
          all.insert(all.end(), output.begin(), output.end());
        }
      }
    }
  }
  return all;
}

struct Way {
  std::string name;
  bool reproducible = false;
  std::map<std::string, std::string> config;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class RanksInFloatModes : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(
    Ways, RanksInFloatModes,
    testing::Values(Way{"AsChosen", false, {}}, Way{"RecursiveDoubling", false, {{"TUTTI_ALGO", "recursive_doubling"}}},
                    Way{"Ring", false, {{"TUTTI_ALGO", "ring"}}}, Way{"OneShot", false, {{"TUTTI_ALGO", "one_shot"}}},
                    Way{"Reproducible", true, {}}, Way{"Tcp", false, {{"TUTTI_SHM_DISABLE", "1"}}}),
    [](const auto& info) { return info.param.name; });

// One rank, then another, has a mode of its own while it makes its communicator and calls.
TEST_P(RanksInFloatModes, HoldTheBitsOfTheUsualMode_F83) {
  RankSetup setup = with_config(GetParam().config);
  setup.options.reproducible = GetParam().reproducible;
  std::vector<Bytes> usual(kRanks);
  expect_ranks(
      kRanks, [&](Communicator& c) { usual[static_cast<std::size_t>(c.rank())] = results(c, {}); }, setup);
  int odd = 0;
  for (const FloatMode& mode : float_modes()) {
    SCOPED_TRACE(mode.name);
    std::vector<Bytes> got(kRanks);
    std::vector<std::optional<InFloatMode>> modes(kRanks);
    setup.adapt = [&](int rank, Options&) {
      if (rank == odd) modes[static_cast<std::size_t>(rank)].emplace(mode);
    };
    expect_ranks(
        kRanks,
        [&](Communicator& communicator) {
          const auto rank = static_cast<std::size_t>(communicator.rank());
          const unsigned long before = float_state();
          got[rank] = results(communicator, {});
          communicator.plan("all_reduce", 100, DataType::kF32);
          communicator.statistics();
          if (communicator.rank() == odd) {
            EXPECT_EQ(float_state(), before);
          }
        },
        setup);
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(got[static_cast<std::size_t>(rank)] == usual[0]) << "rank " << rank;
    }
    odd = (odd + 1) % kRanks;
  }
}

// The thread that makes the stream, or the one that waits for its Works, has it.
TEST(StreamsInFloatModes, HoldTheBitsOfTheUsualMode_F83) {
  std::vector<Bytes> usual(kRanks);
  expect_ranks(kRanks, [&](Communicator& c) { usual[static_cast<std::size_t>(c.rank())] = results(c, {}); });
  for (const FloatMode& mode : float_modes()) {
    for (const bool maker : {true, false}) {
      SCOPED_TRACE(mode.name + (maker ? " when the stream is made" : " when it is waited for"));
      std::vector<Bytes> got(kRanks);
      expect_ranks(kRanks, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        std::optional<InFloatMode> there;
        if (rank == 1) there.emplace(mode);
        HostStream stream;
        // The stream's thread is started by the first call.
        communicator.barrier(stream).wait();
        if (maker) there.reset();
        got[rank] = results(communicator, stream);
      });
      for (const Bytes& result : got) EXPECT_TRUE(result == usual[0]);
    }
  }
}

}  // namespace
}  // namespace tutti
