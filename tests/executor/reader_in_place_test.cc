// A call that fails gives its buffers back at once. Whoever reads a value there has not got it.

#include <gtest/gtest.h>

#include "collectives/registry.h"
#include "executor/series.h"

namespace tutti {
namespace {

TEST(AReaderInPlace, DoesNotBelieveABufferWhoseCallHasFailed) {
  WorldOptions options;
  options.faults = true;
  World world(2, options);
  CallSetup setup;
  setup.algorithm = find_algorithm(Collective::kBroadcast, "binomial");
  setup.count = 1000;
  setup.chunk_bytes = 4096;
  setup.buffers = Buffers::kShared;
  Series(world, {setup, setup, setup}).run(1);  // they learn of each other's memory
  GuardedCall writer(world, 0, setup, 4);
  GuardedCall reader(world, 1, setup, 4);
  writer.start();
  reader.start();
  ASSERT_EQ(world.executor(0).progress(writer.call()), Progress::kAgain) << "the value was not left to be read";
  world.health(0).fail(ErrorCode::kRemote, "somebody died", 1);
  ASSERT_EQ(world.executor(0).progress(writer.call()), Progress::kFailed);
  world.executor(0).withdraw();
  writer.reuse_buffers();
  for (int turn = 0; turn < 100; ++turn) {
    ASSERT_EQ(world.executor(1).progress(reader.call()), Progress::kAgain) << reader.problem();
  }
  world.health(1).fail(ErrorCode::kRemote, "somebody died", 0);
  EXPECT_EQ(world.executor(1).progress(reader.call()), Progress::kFailed);
}

}  // namespace
}  // namespace tutti
