#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "collectives/registry.h"
#include "communicator/values.h"
#include "executor/signature.h"
#include "reduce/float_codes.h"
#include "reduce/reference.h"
#include "schedule/placement.h"
#include "support/ranks.h"

namespace tutti {
namespace {

using Kind = ReduceOp::Kind;
using Bytes = std::vector<std::byte>;

// The names of all algorithms that some reduction of this placement can use.
std::set<std::string> algorithm_names(const std::vector<int>& host_of, bool reproducible) {
  const Placement placement(host_of);
  const Layout layout = placement.layout(0);
  std::set<std::string> names;
  for (const Algorithm& row : algorithms()) {
    if (reduces(row.collective) && row.applies(layout) && (row.reproducible || !reproducible)) {
      names.insert(std::string(row.name));
    }
  }
  return names;
}

// Any bits at all: NaNs of all kinds, infinities, both zeros, subnormal numbers.
std::uint64_t any_code(DataType type, int rank, std::size_t index) {
  const std::uint64_t random = mix(index * 64 + static_cast<std::uint64_t>(rank));
  const std::uint64_t sign = std::uint64_t{1} << (8 * element_size(type) - 1);
  switch (random >> 56 & 15) {
    case 0:
      return 0;
    case 1:
      return sign;
    case 2:
      return canonical_nan(type) | (random >> 40 & 1 ? sign : 0);
    case 3:
      return infinity(type) | (random >> 40 & 1 ? sign : 0);
    default:
      return random & (~std::uint64_t{0} >> (64 - 8 * element_size(type)));
  }
}

// Finite numbers of very different size, so that the order of additions shows.
std::uint64_t uneven_code(DataType type, int rank, std::size_t index) {
  const std::uint64_t random = mix(index * 64 + static_cast<std::uint64_t>(rank) + 7);
  const double value = (static_cast<double>(random % 2001) - 1000) / 700 * (1 << (random >> 32) % 7);
  return encode(type, value);
}

constexpr DataType kFloats[] = {DataType::kF16, DataType::kBF16,   DataType::kF32,
                                DataType::kF64, DataType::kF8E4M3, DataType::kF8E5M2};

// All ranks contribute one value: it is the average, in and out of place, with each collective that reduces.
void expect_average(Communicator& communicator, DataType type, std::uint64_t code, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(communicator.ranks());
  const std::size_t width = element_size(type);
  const auto filled = [&](std::size_t elements) {
    Bytes bytes(elements * width);
    for (std::size_t i = 0; i < elements; ++i) store_code(type, bytes.data(), i, code);
    return bytes;
  };
  const Bytes expected = filled(count);
  for (const bool in_place : {false, true}) {
    const std::string what = fmt::format("{} × {} {:#x}, in place {}", count, name(type), code, in_place);
    Bytes input = filled(count), output(count * width);
    std::byte* to = in_place ? input.data() : output.data();
    communicator.all_reduce(input.data(), to, count, type, kAvg);
    EXPECT_TRUE(std::ranges::equal(expected, std::span(to, expected.size()))) << "all_reduce, " << what;
    for (int root = 0; root < communicator.ranks(); ++root) {
      input = filled(count);
      communicator.reduce(input.data(), to = in_place ? input.data() : output.data(), count, type, kAvg, root);
      if (communicator.rank() != root) continue;
      EXPECT_TRUE(std::ranges::equal(expected, std::span(to, expected.size()))) << "reduce, " << what;
    }
    input = filled(count * ranks);
    const std::size_t own = static_cast<std::size_t>(communicator.rank()) * count * width;
    communicator.reduce_scatter(input.data(), to = in_place ? input.data() + own : output.data(), count, type, kAvg);
    EXPECT_TRUE(std::ranges::equal(expected, std::span(to, expected.size()))) << "reduce_scatter, " << what;
  }
}

class EveryRank : public testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Placements, EveryRank,
                         testing::Values(std::vector{0, 0}, std::vector{0, 0, 0, 0, 0}, std::vector{0, 1, 2},
                                         std::vector{0, 0, 1, 1}),
                         [](const auto& info) { return fmt::format("{}", fmt::join(info.param, "_")); });

TEST_P(EveryRank, HoldsTheSameBits_F73) {
  const std::vector<int>& host_of = GetParam();
  const auto ranks = static_cast<int>(host_of.size());
  prepare_reference();
  for (const std::string& algorithm : algorithm_names(host_of, false)) {
    SCOPED_TRACE(algorithm);
    RankSetup setup = on_hosts(host_of);
    setup.options.config["TUTTI_ALGO"] = algorithm;
    std::vector<Bytes> results(host_of.size());
    expect_ranks(
        ranks,
        [&results](Communicator& communicator) {
          Bytes& all = results[static_cast<std::size_t>(communicator.rank())];
          for (const DataType type : {DataType::kBF16, DataType::kF32, DataType::kF8E5M2}) {
            for (const Kind op : {Kind::kSum, Kind::kMin, Kind::kAvg}) {
              for (const std::size_t count : {std::size_t{7}, std::size_t{reduced() ? 301u : 1501u}}) {
                Bytes values(count * element_size(type));
                for (std::size_t i = 0; i < count; ++i) {
                  store_code(type, values.data(), i, any_code(type, communicator.rank(), i));
                }
                communicator.all_reduce(values.data(), values.data(), count, type, op);
                all.insert(all.end(), values.begin(), values.end());
              }
            }
          }
        },
        setup);
    for (const Bytes& result : results) EXPECT_TRUE(result == results.front());
  }
}

// Values whose sums exceed their type have an average all the same, whatever algorithm is asked for.
TEST_P(EveryRank, AveragesTheLargestValues_F84) {
  const std::vector<int>& host_of = GetParam();
  const auto ranks = static_cast<int>(host_of.size());
  std::set<std::string> names = algorithm_names(host_of, false);
  names.insert("");  // as chosen
  for (const std::string& algorithm : names) {
    for (const bool reproducible : {false, true}) {
      if (reproducible && !algorithm_names(host_of, true).contains(algorithm)) continue;
      SCOPED_TRACE(algorithm + (reproducible ? ", reproducible" : ""));
      RankSetup setup = on_hosts(host_of);
      setup.options.config["TUTTI_ALGO"] = algorithm;
      setup.options.reproducible = reproducible;
      expect_ranks(
          ranks,
          [ranks](Communicator& communicator) {
            for (const DataType type : {DataType::kF16, DataType::kF8E5M2, DataType::kF8E4M3}) {
              for (const std::uint64_t code : {infinity(type) - 1, std::uint64_t{1}}) {  // largest and smallest
                for (const std::size_t count : {std::size_t{16}, std::size_t{reduced() ? 700u : 5000u}}) {
                  expect_average(communicator, type, code, count);
                }
              }
            }
            const std::string plan = communicator.plan("all_reduce", 16, DataType::kF16, kAvg);
            EXPECT_TRUE(plan.starts_with("one_shot") || plan.starts_with("two_shot")) << plan;
          },
          setup);
    }
  }
}

// How a communicator can be set up without a change of any result.
struct Variation {
  std::string name;
  std::vector<int> host_of;
  std::map<std::string, std::string> config;
};
std::ostream& operator<<(std::ostream& out, const Variation& variation) { return out << variation.name; }

class Reproducible : public testing::TestWithParam<Variation> {};
INSTANTIATE_TEST_SUITE_P(
    Variations, Reproducible,
    testing::Values(Variation{"TwoRanks", {0, 0}, {}}, Variation{"ThreeRanks", {0, 0, 0}, {}},
                    Variation{"FiveRanks", {0, 0, 0, 0, 0}, {}}, Variation{"EightRanks", {0, 0, 0, 0, 0, 0, 0, 0}, {}},
                    Variation{"FiveRanksOverTcp", {0, 1, 2, 3, 4}, {{"TUTTI_SHM_DISABLE", "1"}}},
                    Variation{"FiveRanksOnTwoHosts", {0, 1, 0, 1, 1}, {}},
                    Variation{"FourRanksOnTwoHosts", {0, 0, 1, 1}, {}},
                    Variation{"FiveRanksSmallChunks", {0, 0, 0, 0, 0}, {{"TUTTI_CHUNK_BYTES", "512"}}},
                    Variation{"FiveRanksOneChannel", {0, 0, 0, 0, 0}, {{"TUTTI_CHANNELS", "1"}}},
                    Variation{"FiveRanksFourChannels", {0, 0, 0, 0, 0}, {{"TUTTI_CHANNELS", "4"}}}),
    [](const auto& info) { return info.param.name; });

// Values repeat, so that one expectation serves every place: an element's result must not depend on where it lies.
constexpr std::size_t kPeriod = 61;

std::vector<std::uint64_t> tree_results(DataType type, Kind op, int ranks) {
  std::vector<std::uint64_t> results;
  TestCall call;
  call.op = op;
  for (std::size_t i = 0; i < kPeriod; ++i) {
    std::vector<std::uint64_t> sources;
    for (int r = 0; r < ranks; ++r) {
      sources.push_back(reference({type, op_of(call, r), ranks, false, true}, {uneven_code(type, r, i)}, 0));
    }
    results.push_back(reference({type, op, ranks, true, true}, sources, -1));
  }
  return results;
}

using Expectations = std::map<std::pair<DataType, Kind>, std::vector<std::uint64_t>>;

void check_reproducible(Communicator& communicator, const Expectations& expectations, DataType type, Kind op,
                        std::size_t count, std::size_t shift) {
  const int rank = communicator.rank();
  const auto all = static_cast<std::size_t>(communicator.ranks());
  const std::vector<std::uint64_t>& expected = expectations.at({type, op});
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    TestCall call{collective, type, op, count, communicator.ranks() - 1, false, 0};
    const std::size_t blocks = collective == Collective::kReduceScatter ? all : 1;
    const std::size_t first = collective == Collective::kReduceScatter ? static_cast<std::size_t>(rank) * count : 0;
    Bytes input((blocks * count + shift) * element_size(type)), output((count + shift) * element_size(type));
    std::byte* in = input.data() + shift * element_size(type);
    std::byte* out = output.data() + shift * element_size(type);
    for (std::size_t i = 0; i < blocks * count; ++i) store_code(type, in, i, uneven_code(type, rank, i % kPeriod));
    doing(describe(call));
    issue(communicator, call, in, out);
    if (collective == Collective::kReduce && rank != call.root) continue;
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(load_code(type, out, i), expected[(first + i) % kPeriod]) << describe(call) << " element " << i;
    }
  }
}

TEST_P(Reproducible, ResultsAreThoseOfTheTree_F73) {
  const Variation& variation = GetParam();
  const auto ranks = static_cast<int>(variation.host_of.size());
  prepare_reference();
  Expectations expectations;
  for (const DataType type : kFloats) {
    for (const Kind op : {Kind::kSum, Kind::kProd, Kind::kAvg, Kind::kPreMulSum}) {
      expectations[{type, op}] = tree_results(type, op, ranks);
    }
  }
  std::set<std::string> names = algorithm_names(variation.host_of, true);
  ASSERT_FALSE(names.empty());
  names.insert("");  // as chosen
  for (const std::string& algorithm : names) {
    SCOPED_TRACE(algorithm);
    RankSetup setup = on_hosts(variation.host_of);
    setup.options.reproducible = true;
    setup.options.config = variation.config;
    setup.options.config["TUTTI_ALGO"] = algorithm;
    expect_ranks(
        ranks,
        [&expectations](Communicator& communicator) {
          for (const auto& [kind, results] : expectations) {
            const auto& [type, op] = kind;
            check_reproducible(communicator, expectations, type, op, 130, 3);
            if (op != Kind::kSum || reduced()) continue;
            check_reproducible(communicator, expectations, type, op, 1, 0);
            check_reproducible(communicator, expectations, type, op, 2001, 1);
          }
        },
        setup);
  }
}

TEST(Reproducible, RefusesAlgorithmsThatAddInAnotherOrder) {
  const Placement placement(2);
  const Layout layout = placement.layout(0);
  for (const Algorithm& row : algorithms()) {
    if (!reduces(row.collective) || row.reproducible || !row.applies(layout)) continue;
    RankSetup setup;
    setup.options.reproducible = true;
    setup.options.config["TUTTI_ALGO"] = fmt::format("{}:{}", name(row.collective), row.name);
    for (const RankEnd& end : run_ranks(
             2, [](Communicator&) {}, setup)) {
      ASSERT_TRUE(end.error) << row.name << ": " << end.text;
      EXPECT_EQ(end.error->code(), ErrorCode::kInvalidSetting) << end.text;
      EXPECT_NE(end.text.find("reproducible"), std::string::npos) << end.text;
    }
  }
}

}  // namespace
}  // namespace tutti
