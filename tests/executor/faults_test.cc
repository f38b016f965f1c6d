// Collectives over ways that are slow, late, cut short or broken. What must hold:
//   - a call that says it is done has the right result, whatever becomes of others;
//   - a call that fails does so because something broke, and the reason names a rank at the break;
//   - a call waits for ever only where a connection went silent and nobody was told;
//   - nothing is written around buffers, nor into them once their call has ended.
// TUTTI_TEST_SEED repeats a run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "executor/series.h"

namespace tutti {
namespace {

using Break = FaultPlan::Break;

// Calls that fit the rings of options_of(): inline, in slots, in several rounds, read where they lie.
std::vector<CallSetup> setups_of(const Algorithm& algorithm, const World& world, std::mt19937_64& random) {
  const Chunking chunking = algorithm.chunking(world.layout(0));
  const auto chunks = static_cast<std::size_t>(chunking.chunks);
  struct Bytes {
    std::size_t chunk_bytes;
    std::size_t count;
  };
  std::vector<Bytes> sizes = {
      {512, 1}, {512, 7}, {512, 129}, {512, 3 * chunks * 128 - 1}, {4096, 2 * chunks * 1024 + 5}};
  const std::size_t longest = 768 * 1024 / 2 / static_cast<std::size_t>(chunking.slot_chunks) / 64 * 64;
  if (longest >= 36 * 1024) sizes.push_back({36 * 1024, chunks * 9 * 1024 + 3});
  std::vector<CallSetup> setups;
  for (const Bytes& size : sizes) {
    for (const bool in_place : {false, true}) {
      CallSetup setup;
      setup.algorithm = &algorithm;
      setup.root =
          is_rooted(algorithm.collective) ? static_cast<int>(random() % static_cast<unsigned>(world.ranks())) : 0;
      setup.count = size.count;
      setup.in_place = in_place;
      setup.chunk_bytes = size.chunk_bytes;
      setup.channels = 1 + static_cast<int>(random() % 3);
      setup.buffers = random() % 2 == 0 ? Buffers::kPrivate : Buffers::kShared;
      setups.push_back(setup);
    }
  }
  return setups;
}

std::size_t bytes_of(const CallSetup& setup) { return setup.count * sizeof(float); }

class Faults : public testing::TestWithParam<Size> {
 protected:
  const Fabric& fabric() const { return *GetParam().fabric; }
  int ranks() const { return GetParam().ranks; }
  std::mt19937_64 random_{given_seed()};
};

TEST_P(Faults, LeaveEveryResultRightWhenMessagesAreOnlyLateOrCutShort) {
  const auto window = static_cast<std::uint32_t>(2 << random_() % 3);
  World world(ranks(), options_of(fabric(), ranks(), window));
  std::uint64_t sequence = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.applies(world.layout(0))) continue;
    for (const CallSetup& setup : setups_of(algorithm, world, random_)) {
      if (random_() % (reduced() ? 10 : ranks() > 5 ? 2 : 1) != 0) continue;
      const FaultPlan plan = FaultPlan::random(random_(), bytes_of(setup));
      SCOPED_TRACE(fmt::format("{} window {}\n{}", setup.text(), window, plan.text()));
      world.faults().set_plan(plan);
      Series series(world, {setup}, ++sequence);
      series.run(random_());
      ASSERT_EQ(series.problem(), "");
      ASSERT_TRUE(world.quiet()) << "a message was left over";
    }
  }
  ASSERT_TRUE(settle(world)) << "credit was lost";
}

TEST_P(Faults, LeaveDifferentCallsOneAfterTheOtherRight) {
  const auto window = static_cast<std::uint32_t>(2 << random_() % 3);
  World world(ranks(), options_of(fabric(), ranks(), window));
  std::vector<CallSetup> all;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.applies(world.layout(0))) continue;
    for (CallSetup& setup : setups_of(algorithm, world, random_)) all.push_back(setup);
  }
  std::uint64_t sequence = 1;
  for (int trial = 0; trial < (reduced() ? 2 : 20); ++trial) {
    std::vector<CallSetup> setups;
    std::string text;
    std::size_t bytes = 0;
    for (int i = 0; i < 12; ++i) {
      setups.push_back(all[random_() % all.size()]);
      text += setups.back().text() + '\n';
      bytes += bytes_of(setups.back());
    }
    const FaultPlan plan = FaultPlan::random(random_(), bytes);
    SCOPED_TRACE(fmt::format("{}window {}\n{}", text, window, plan.text()));
    world.faults().set_plan(plan);
    Series series(world, setups, sequence);
    sequence += setups.size();
    series.run(random_());
    ASSERT_EQ(series.problem(), "");
    ASSERT_TRUE(world.quiet()) << "a message was left over";
    ASSERT_TRUE(settle(world)) << "credit was lost";
  }
}

// A rank that has its result may compute for long, or wait in another communicator: the others do not need it.
TEST_P(Faults, DoNotMakeACallWaitForARankThatHasItsResult) {
  for (const Algorithm& algorithm : algorithms()) {
    if (reduced() && random_() % 4 != 0) continue;
    WorldOptions options = options_of(fabric(), ranks(), static_cast<std::uint32_t>(2 << random_() % 3));
    options.large_ring_bytes = 64 * 1024;
    World world(ranks(), options);
    if (!algorithm.applies(world.layout(0))) continue;
    const Chunking chunking = algorithm.chunking(world.layout(0));
    CallSetup setup;
    setup.algorithm = &algorithm;
    setup.root = is_rooted(algorithm.collective) ? ranks() - 1 : 0;
    setup.chunk_bytes = options.large_ring_bytes / 2 / static_cast<std::size_t>(chunking.slot_chunks) / 64 * 64;
    setup.count = 5 * static_cast<std::size_t>(chunking.chunks) * setup.chunk_bytes / sizeof(float) - 7;
    setup.channels = 1 + static_cast<int>(random_() % 3);
    const FaultPlan plan = FaultPlan::random(random_(), bytes_of(setup));
    SCOPED_TRACE(fmt::format("{}\n{}", setup.text(), plan.text()));
    world.faults().set_plan(plan);
    for (std::uint64_t sequence = 1; sequence <= 2; ++sequence) {
      Series series(world, {setup}, sequence);
      series.run(random_(), true);
      EXPECT_EQ(series.problem(), "");
    }
  }
}

// Whatever breaks, at any moment.
TEST_P(Faults, ThatBreakSomethingNeverMakeAWrongResult) {
  const Placement placement(hosts(fabric(), ranks()));
  int broken = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.applies(placement.layout(0)) || (reduced() && random_() % 2 != 0)) continue;
    for (int trial = 0; trial < (reduced() ? 1 : 4); ++trial) {
      World world(ranks(), options_of(fabric(), ranks(), static_cast<std::uint32_t>(2 << random_() % 3)));
      const std::vector<CallSetup> setups = setups_of(algorithm, world, random_);
      const CallSetup& setup = setups[random_() % setups.size()];
      FaultPlan plan = FaultPlan::random(random_(), bytes_of(setup));
      plan.breaks = random_() % 4 == 0 ? Break::kSilent : random_() % 3 == 0 ? Break::kLost : Break::kKilled;
      plan.victim = static_cast<int>(random_() % static_cast<unsigned>(ranks()));
      plan.other = plan.victim;
      if (plan.breaks != Break::kKilled) {
        do plan.other = static_cast<int>(random_() % static_cast<unsigned>(ranks()));
        while (plan.other == plan.victim);
      }
      plan.breaks_at = random_() % (plan.breaks == Break::kKilled ? 60u : 8u);
      SCOPED_TRACE(fmt::format("{}\n{}", setup.text(), plan.text()));
      world.faults().set_plan(plan);
      Series series(world, {setup, setup, setup});
      series.run(random_());
      ASSERT_EQ(series.problem(), "");
      broken += world.faults().broken() ? 1 : 0;
    }
  }
  EXPECT_GT(broken, 0);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Faults, testing::ValuesIn(kWorlds),
                         [](const auto& info) { return info.param.fabric->name + std::to_string(info.param.ranks); });

}  // namespace
}  // namespace tutti
