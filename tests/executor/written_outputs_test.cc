// Outputs in the library's memory, into which the peers write.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "collectives/registry.h"
#include "executor/guarded_call.h"
#include "support/world.h"
#include "transport/shm/shared_heap.h"

namespace tutti {
namespace {

constexpr std::size_t kCount = 40'000;

CallSetup two_shot() {
  return {find_algorithm(Collective::kAllReduce, "two_shot"), 0, kCount, true, 16 * 1024, 1, Buffers::kShared};
}

std::uint64_t written(World& world, int from, int to) { return world.channel(from, 0).endpoint(to).segments->writes(); }

// Runs one call on all ranks; what is wrong with it.
std::string run(World& world, std::vector<CallSetup> setups, std::uint64_t sequence) {
  std::vector<std::unique_ptr<GuardedCall>> parts;
  std::vector<Call*> calls;
  for (int r = 0; r < world.ranks(); ++r) {
    parts.push_back(std::make_unique<GuardedCall>(world, r, setups[static_cast<std::size_t>(r)], sequence));
    parts.back()->start();
    calls.push_back(&parts.back()->call());
  }
  if (!world.drive(calls, sequence)) return "nobody gets on";
  for (const auto& part : parts) {
    if (std::string problem = part->problem(); !problem.empty()) return problem;
  }
  return world.quiet() ? "" : "a message was left over";
}

TEST(WrittenOutputs, AreWrittenOnceTheirSegmentIsKnown) {
  World world(3, {});
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
    ASSERT_EQ(run(world, std::vector<CallSetup>(3, two_shot()), sequence), "");
  }
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      EXPECT_GT(written(world, from, to), 0u) << from << " to " << to;
    }
  }
}

TEST(WrittenOutputs, AreThoseOfRanksThatHaveThem) {
  // Rank 1 calls with private buffers, the others in place and not.
  World world(3, {});
  std::vector<CallSetup> setups(3, two_shot());
  setups[1].buffers = Buffers::kPrivate;
  setups[2].in_place = false;
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) {
    ASSERT_EQ(run(world, setups, sequence), "");
  }
  EXPECT_GT(written(world, 1, 0), 0u);
  EXPECT_GT(written(world, 1, 2), 0u);
  EXPECT_GT(written(world, 0, 2), 0u);
  EXPECT_EQ(written(world, 0, 1), 0u);
  EXPECT_EQ(written(world, 2, 1), 0u);
}

// Rank 0 leaves a call that has failed. Its peer may not have heard, and still write.
TEST(WrittenOutputs, AreNotHandedOutAgainWhileAPeerMayWriteThere) {
  SharedHeap& heap = SharedHeap::of_process();
  auto world = std::make_unique<World>(2, WorldOptions{});
  auto part = std::make_unique<GuardedCall>(*world, 0, two_shot(), 1);
  part->start();
  ASSERT_EQ(world->executor(0).progress(part->call()), Progress::kAgain);
  ASSERT_TRUE(part->call().lends_output);
  const auto output = heap.find(part->call().output, 1);
  ASSERT_TRUE(output);
  const std::uint64_t page = output->offset / SharedHeap::kAlignment;

  world->health(0).fail(ErrorCode::kAborted, "planted");
  world->executor(0).withdraw();
  part.reset();
  std::vector<void*> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(heap.allocate(kCount * sizeof(float) + 512));
    const auto location = heap.find(others.back(), 1);
    EXPECT_NE(location->offset / SharedHeap::kAlignment, page);
  }
  for (void* other : others) heap.deallocate(other);

  // Now the peer has failed, too.
  world->executor(1).withdraw();
  world.reset();
  void* const again = heap.allocate(kCount * sizeof(float) + 512);
  EXPECT_EQ(heap.find(again, 1)->offset / SharedHeap::kAlignment, page);
  heap.deallocate(again);
}

TEST(WrittenOutputs, AreLostWhenAPeerNeverSaysThatItHasEnded) {
  SharedHeap& heap = SharedHeap::of_process();
  auto world = std::make_unique<World>(2, WorldOptions{});
  auto part = std::make_unique<GuardedCall>(*world, 0, two_shot(), 1);
  part->start();
  world->executor(0).progress(part->call());
  const std::uint64_t page = heap.find(part->call().output, 1)->offset / SharedHeap::kAlignment;
  world->health(0).fail(ErrorCode::kAborted, "planted");
  world->executor(0).withdraw();
  part.reset();
  world.reset();
  void* const other = heap.allocate(kCount * sizeof(float) + 512);
  EXPECT_NE(heap.find(other, 1)->offset / SharedHeap::kAlignment, page);
  heap.deallocate(other);
}

}  // namespace
}  // namespace tutti
