// Every algorithm of every collective, executed on every kind of transport by one thread that drives all ranks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "executor/guarded_call.h"
#include "support/world.h"

namespace tutti {
namespace {

constexpr std::size_t kChunkBytes = 512;  // small, so that few elements make several rounds
constexpr std::size_t kChunkElements = kChunkBytes / sizeof(float);

bool reduced() { return std::getenv("TUTTI_TEST_REDUCED") != nullptr; }

// Executes one call on all ranks and checks every rank's output.
void run_and_check(World& world, const Algorithm& algorithm, int root, std::size_t count, bool in_place,
                   std::uint64_t sequence, Buffers kind, std::size_t chunk_bytes = kChunkBytes) {
  const CallSetup setup{&algorithm, root, count, in_place, chunk_bytes, 1 + static_cast<int>(sequence % 2), kind};
  std::vector<std::unique_ptr<GuardedCall>> parts;
  std::vector<Call*> calls;
  for (int r = 0; r < world.ranks(); ++r) {
    parts.push_back(std::make_unique<GuardedCall>(world, r, setup, sequence));
    parts.back()->start();
    calls.push_back(&parts.back()->call());
  }
  ASSERT_TRUE(world.drive(calls, sequence)) << "nobody gets on";
  EXPECT_TRUE(world.quiet()) << "a message was left over";
  for (const auto& part : parts) ASSERT_EQ(part->problem(), "");
}

struct Fabric {
  const char* name;
  std::vector<int> (*host_of)(int ranks);
  std::vector<int> (*group_of)(int ranks) = nullptr;
};

const Fabric kFabrics[] = {
    {"SharedMemory", [](int ranks) { return std::vector<int>(static_cast<std::size_t>(ranks), 0); }},
    {"Tcp",
     [](int ranks) {
       std::vector<int> hosts;
       for (int r = 0; r < ranks; ++r) hosts.push_back(r);
       return hosts;
     }},
    {"Mixed",
     [](int ranks) {
       std::vector<int> hosts;
       for (int r = 0; r < ranks; ++r) hosts.push_back(r * 2 / ranks);
       return hosts;
     }},
    // One host with two NUMA nodes: ranks 0, 2, 3 … and 1, 4, 7 …
    {"Groups", [](int ranks) { return std::vector<int>(static_cast<std::size_t>(ranks), 0); },
     [](int ranks) {
       std::vector<int> groups;
       for (int r = 0; r < ranks; ++r) groups.push_back(r % 3 == 1);
       return groups;
     }},
};

WorldOptions world_on(const Fabric& fabric, int ranks) {
  WorldOptions options;
  options.host_of = fabric.host_of(ranks);
  if (fabric.group_of != nullptr) options.group_of = fabric.group_of(ranks);
  options.channels = 2;
  return options;
}

// On groups only what heeds them differs from one host without.
bool applies(const Fabric& fabric, const Algorithm& algorithm, const Layout& layout) {
  if (!algorithm.applies(layout) || is_vector(algorithm.collective)) return false;
  return fabric.group_of == nullptr || algorithm.name == "two_level" || algorithm.name == "ring" ||
         algorithm.name == "chain";
}

class Product : public testing::TestWithParam<std::tuple<int, int, Buffers>> {};

TEST_P(Product, EveryAlgorithmGivesTheReferenceResult) {
  const Fabric& fabric = kFabrics[static_cast<std::size_t>(std::get<0>(GetParam()))];
  const int ranks = std::get<1>(GetParam());
  const Buffers kind = std::get<2>(GetParam());
  World world(ranks, world_on(fabric, ranks));
  const auto n = static_cast<std::size_t>(ranks);
  const std::vector<std::size_t> counts = {0,
                                           1,
                                           7,
                                           kChunkElements - 1,
                                           kChunkElements,
                                           kChunkElements + 1,
                                           n * kChunkElements + 1,
                                           3 * n * kChunkElements - 1,
                                           1009};
  std::uint64_t sequence = 0;
  int sample = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!applies(fabric, algorithm, world.layout(0))) continue;
    for (const int root : is_rooted(algorithm.collective) ? std::vector<int>{0, ranks - 1} : std::vector<int>{0}) {
      for (const std::size_t count : counts) {
        for (const bool in_place : {false, true}) {
          // One thread does everything here: of the sanitizers, the one for threads finds little.
          if (reduced() && ++sample % 3 != 0) continue;
          SCOPED_TRACE(std::string(name(algorithm.collective)) + " " + std::string(algorithm.name) + " root " +
                       std::to_string(root) + " count " + std::to_string(count) + (in_place ? " in place" : ""));
          run_and_check(world, algorithm, root, count, in_place, ++sequence, kind);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Product,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2, 3, 4, 5),
                                          testing::Values(Buffers::kPrivate, Buffers::kShared)),
                         [](const auto& info) {
                           return std::string(kFabrics[static_cast<std::size_t>(std::get<0>(info.param))].name) +
                                  std::to_string(std::get<1>(info.param)) +
                                  (std::get<2>(info.param) == Buffers::kShared ? "Shared" : "Private");
                         });

// Rings with room for two messages of every connection, as a schedule may ask: whoever holds back the credit for a slot
// can be waiting for somebody who needs that slot.
class SmallestRing : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(SmallestRing, IsEnoughForEveryAlgorithm) {
  const Fabric& fabric = kFabrics[static_cast<std::size_t>(std::get<0>(GetParam()))];
  const int ranks = std::get<1>(GetParam());
  WorldOptions options = world_on(fabric, ranks);
  options.large_ring_bytes = 64 * 1024;
  World world(ranks, options);
  std::uint64_t sequence = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!applies(fabric, algorithm, world.layout(0))) continue;
    const auto slots = 2 * static_cast<std::size_t>(algorithm.chunking(world.layout(0)).slot_chunks);
    const std::size_t chunk_bytes = options.large_ring_bytes / slots / 64 * 64;
    const std::size_t chunks = static_cast<std::size_t>(algorithm.chunking(world.layout(0)).chunks);
    const std::size_t count = 5 * chunks * chunk_bytes / sizeof(float) - 7;
    SCOPED_TRACE(std::string(name(algorithm.collective)) + " " + std::string(algorithm.name));
    for (int repeat = 0; repeat < (reduced() ? 1 : 3); ++repeat) {
      run_and_check(world, algorithm, ranks - 1, count, false, ++sequence, Buffers::kPrivate, chunk_bytes);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, SmallestRing, testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(3, 5, 8)),
                         [](const auto& info) {
                           return std::string(kFabrics[static_cast<std::size_t>(std::get<0>(info.param))].name) +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace tutti
