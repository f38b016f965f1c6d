#include "executor/faulty_world.h"

#include <fmt/format.h>

#include <cstdlib>
#include <random>

namespace tutti {

std::uint64_t given_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("TUTTI_TEST_SEED");
    const std::uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    fmt::print("TUTTI_TEST_SEED={}\n", value);
    return value;
  }();
  return seed;
}

bool reduced() { return std::getenv("TUTTI_TEST_REDUCED") != nullptr; }

std::vector<int> hosts(const Fabric& fabric, int ranks) {
  std::vector<int> host_of;
  for (int r = 0; r < ranks; ++r) host_of.push_back(r / fabric.ranks_per_host);
  return host_of;
}

WorldOptions options_of(const Fabric& fabric, int ranks, std::uint32_t window) {
  WorldOptions options;
  options.host_of = hosts(fabric, ranks);
  options.channels = 3;
  options.window = window;
  options.large_ring_bytes = 768 * 1024;
  options.faults = true;
  return options;
}

std::string wrong_ending(World& world, int rank, Ending ending) {
  const FaultPlan& plan = world.faults().plan();
  const bool broken = world.faults().broken();
  const Health& health = world.health(rank);
  switch (ending) {
    case Ending::kFailed:
      if (!health.failed()) return fmt::format("rank {} failed for no reason, perhaps a mismatch", rank);
      if (!broken) return fmt::format("rank {} failed though nothing broke: {}", rank, health.reason().what());
      if (health.reason().peer() == plan.victim || health.reason().peer() == plan.other) return "";
      return fmt::format("rank {} blames rank {}", rank, health.reason().peer());
    case Ending::kStuck:
      return broken && plan.breaks == FaultPlan::Break::kSilent ? "" : fmt::format("rank {} waits for ever", rank);
    case Ending::kDone:
    case Ending::kKilled:
      break;
  }
  return "";
}

bool settle(World& world) {
  for (int turn = 0; turn < 100'000 && !world.faults().settled(); ++turn) {
    world.poll(turn % world.ranks());
    world.flush(turn % world.ranks());
  }
  return world.faults().settled();
}

}  // namespace tutti
