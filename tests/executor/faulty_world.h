#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "support/world.h"

namespace tutti {

// TUTTI_TEST_SEED, or a random one, which is printed.
std::uint64_t given_seed();
// Only a share of the cases: TUTTI_TEST_REDUCED, where every one takes long.
bool reduced();

// How ranks lie on hosts.
struct Fabric {
  const char* name;
  int ranks_per_host;
};
inline constexpr Fabric kFabrics[] = {{"Apart", 1}, {"Pairs", 2}, {"Threes", 3}};
std::vector<int> hosts(const Fabric& fabric, int ranks);

struct Size {
  const Fabric* fabric;
  int ranks;
};
inline void PrintTo(const Size& size, std::ostream* out) { *out << size.fabric->name << size.ranks; }
inline constexpr Size kWorlds[] = {{&kFabrics[0], 2}, {&kFabrics[0], 3}, {&kFabrics[0], 4}, {&kFabrics[0], 5},
                                   {&kFabrics[0], 6}, {&kFabrics[0], 7}, {&kFabrics[0], 8}, {&kFabrics[1], 3},
                                   {&kFabrics[1], 4}, {&kFabrics[1], 6}, {&kFabrics[1], 8}, {&kFabrics[2], 4},
                                   {&kFabrics[2], 5}, {&kFabrics[2], 6}, {&kFabrics[2], 7}};

// A world whose ways are slow, late, cut short or broken.
WorldOptions options_of(const Fabric& fabric, int ranks, std::uint32_t window = 4);

// Why a task of this rank must not have ended so; "" when it may.
std::string wrong_ending(World& world, int rank, Ending ending);

// Lets all credit find its way. REQUIRES: nothing has broken.
bool settle(World& world);

}  // namespace tutti
