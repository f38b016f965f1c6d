// Outputs in the library's memory, into which the peers write.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "executor/guarded_call.h"
#include "support/world.h"
#include "transport/shm/pages.h"
#include "transport/shm/shared_heap.h"

namespace tutti {
namespace {

constexpr std::size_t kCount = 40'000;

CallSetup two_shot() {
  return {find_algorithm(Collective::kAllReduce, "two_shot"), 0, kCount, true, 16 * 1024, 1, Buffers::kShared};
}

// Rounds of two chunks, of which the root may write the second.
CallSetup shared_copy(int root) {
  return {find_algorithm(Collective::kBroadcast, "shared_copy"), root, kCount, true, 16 * 1024, 1, Buffers::kShared};
}
constexpr std::uint64_t kRounds = 5;
constexpr std::uint64_t kWritten = kRounds - 1;  // the last chunk ends on a page that has something else on it

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

TEST(WrittenOutputs, AreWrittenForRanksThatOnlyReceive) {
  World world(2, {});
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
    const int root = sequence == 2 ? 1 : 0;
    const std::uint64_t before = written(world, root, 1 - root);
    ASSERT_EQ(run(world, std::vector<CallSetup>(2, shared_copy(root)), sequence), "");
    EXPECT_EQ(written(world, root, 1 - root) - before, kWritten);
  }
  // The other half is read where the root has it, now that this rank has mapped it.
  EXPECT_GT(world.channel(1, 0).endpoint(0).segments->reads(), 0u);
}

TEST(WrittenOutputs, AreLeftToRanksThatReceiveWhereTheRootHasAnOutputToWrite) {
  World world(2, {});
  std::vector<CallSetup> setups(2, shared_copy(0));
  setups[0].in_place = false;
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) ASSERT_EQ(run(world, setups, sequence), "");
  EXPECT_EQ(written(world, 0, 1), 0u);
  // … and where nobody else can reach them.
  setups[0].in_place = true;
  setups[1].buffers = Buffers::kPrivate;
  for (std::uint64_t sequence = 4; sequence <= 6; ++sequence) ASSERT_EQ(run(world, setups, sequence), "");
  EXPECT_EQ(written(world, 0, 1), 0u);
  // What the root has of its own is no obstacle.
  setups[0].buffers = Buffers::kPrivate;
  setups[1].buffers = Buffers::kShared;
  ASSERT_EQ(run(world, setups, 7), "");
  EXPECT_EQ(written(world, 0, 1), kWritten);
}

TEST(WrittenOutputs, AreNotWaitedForWhereARankIsLate) {
  World world(2, {});
  GuardedCall root(world, 0, shared_copy(0), 1);
  root.start();
  ASSERT_EQ(world.executor(0).progress(root.call()), Progress::kAgain);
  EXPECT_EQ(world.channel(0, 0).endpoint(1).sent, 4u) << "as many messages as there are lines";
  GuardedCall late(world, 1, shared_copy(0), 1);
  late.start();
  Call* const calls[] = {&root.call(), &late.call()};
  ASSERT_TRUE(world.drive(calls));
  EXPECT_EQ(root.problem() + late.problem(), "");
  EXPECT_EQ(written(world, 0, 1), kWritten - 2);
}

// The root has heard where its peer's last output was, and nothing of this one.
TEST(WrittenOutputs, AreNotThoseOfACallBefore) {
  World world(2, {});
  std::vector<std::unique_ptr<GuardedCall>> before;
  std::vector<Call*> calls;
  for (int r = 0; r < 2; ++r) {
    before.push_back(std::make_unique<GuardedCall>(world, r, shared_copy(0), 1));
    before.back()->start();
    calls.push_back(&before.back()->call());
  }
  ASSERT_TRUE(world.drive(calls, 1));
  for (const auto& part : before) part->reuse_buffers();
  const std::uint64_t written_before = written(world, 0, 1);
  ASSERT_GT(written_before, 0u);

  GuardedCall root(world, 0, shared_copy(0), 2);
  root.start();
  ASSERT_EQ(world.executor(0).progress(root.call()), Progress::kAgain);
  EXPECT_EQ(written(world, 0, 1), written_before);
  EXPECT_EQ(before[1]->problem_since(), "");
  GuardedCall late(world, 1, shared_copy(0), 2);
  late.start();
  Call* const both[] = {&root.call(), &late.call()};
  ASSERT_TRUE(world.drive(both, 2));
  EXPECT_EQ(root.problem() + late.problem(), "");
}

TEST(WrittenOutputs, AreNotThoseOfAnotherCall) {
  // Rank 1 expects less than comes: its output ends earlier.
  World world(2, {});
  CallSetup less = shared_copy(0);
  less.count = 1000;
  GuardedCall root(world, 0, shared_copy(0), 1);
  GuardedCall other(world, 1, less, 1);
  other.start();
  other.reuse_buffers();
  root.start();
  EXPECT_EQ(world.executor(0).progress(root.call()), Progress::kAgain);
  EXPECT_GT(world.channel(0, 0).endpoint(1).sent, 1u);
  EXPECT_EQ(written(world, 0, 1), 0u);
  EXPECT_EQ(other.problem_since(), "");
  EXPECT_EQ(world.executor(1).progress(other.call()), Progress::kFailed);
  EXPECT_EQ(world.executor(1).mismatch().peer, 0);
}

TEST(WrittenOutputs, AreNotWhereADamagedPeerSays) {
  World world(2, {});
  ASSERT_EQ(run(world, std::vector<CallSetup>(2, shared_copy(0)), 1), "");
  const std::uint64_t before = written(world, 0, 1);
  GuardedCall root(world, 0, shared_copy(0), 2);
  GuardedCall damaged(world, 1, shared_copy(0), 2);
  root.start();
  damaged.start();
  auto& notice = const_cast<Line&>(*world.channel(0, 0).endpoint(1).notice_in);
  const std::uint64_t beyond = std::uint64_t{1} << 40;
  std::memcpy(notice.payload + offsetof(Notes, output_offset), &beyond, sizeof(beyond));
  Call* const calls[] = {&root.call(), &damaged.call()};
  ASSERT_TRUE(world.drive(calls));
  EXPECT_EQ(root.problem() + damaged.problem(), "");
  EXPECT_EQ(written(world, 0, 1), before);
}

// What lies beside an output would move with it when its pages are replaced.
TEST(WrittenOutputs, AreWholePagesOfTheOutput_D2) {
  World world(2, {});
  for (const std::size_t count : {1'500, 3'000, 40'000}) {
    CallSetup setup = two_shot();
    setup.count = count;
    GuardedCall part(world, 0, setup, 1);
    part.start();
    const Call& call = part.call();
    ASSERT_TRUE(call.shared_output);
    const std::size_t page = page_size();
    const std::uint64_t begin = call.shared_output->offset;
    const std::uint64_t end = begin + count * sizeof(float);
    if (round_up(begin, page) >= round_down(end, page)) {
      EXPECT_FALSE(call.lends_output);
      continue;
    }
    ASSERT_TRUE(call.lends_output);
    EXPECT_EQ(call.lent.anchor, round_up(begin, page));
    EXPECT_EQ(call.lent.end, round_down(end, page));
    EXPECT_EQ(call.lent.offset, begin);
    EXPECT_EQ(call.lent.offset + call.lent.missing, call.lent.anchor);
  }
}

// Whether the peers hear of it in messages or in a notice.
class LentOutput : public testing::TestWithParam<CallSetup> {};
INSTANTIATE_TEST_SUITE_P(Calls, LentOutput, testing::Values(two_shot(), shared_copy(1)),
                         [](const auto& info) { return std::string(info.param.algorithm->name); });

// Rank 0 leaves a call that has failed. Its peer may not have heard, and still write.
TEST_P(LentOutput, AreNotHandedOutAgainWhileAPeerMayWriteThere) {
  SharedHeap& heap = SharedHeap::of_process();
  auto world = std::make_unique<World>(2, WorldOptions{});
  auto part = std::make_unique<GuardedCall>(*world, 0, GetParam(), 1);
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

TEST_P(LentOutput, AreLostWhenAPeerNeverSaysThatItHasEnded) {
  SharedHeap& heap = SharedHeap::of_process();
  auto world = std::make_unique<World>(2, WorldOptions{});
  auto part = std::make_unique<GuardedCall>(*world, 0, GetParam(), 1);
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
