// Survivors among threads: whoever does not call is one that left, or lives and is waited for. Deaths are in
// tests/process/shrink_test.cc.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "support/together.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

int sum_of_ranks(Communicator& communicator) {
  int value = communicator.rank();
  communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
  return value;
}

void expect_works(Communicator& communicator, int rank, int ranks) {
  EXPECT_EQ(communicator.rank(), rank);
  EXPECT_EQ(communicator.ranks(), ranks);
  EXPECT_EQ(sum_of_ranks(communicator), ranks * (ranks - 1) / 2);
  std::vector<float> data(50'000, 1);
  communicator.all_reduce(data.data(), data.data(), data.size(), DataType::kF32, kSum);
  EXPECT_EQ(data.back(), static_cast<float>(ranks));
}

void call_until_it_fails(Communicator& communicator) {
  try {
    while (true) communicator.barrier();
  } catch (const Error&) {
  }
}

class Shrinking : public testing::TestWithParam<std::vector<int>> {
 protected:
  static int ranks() { return static_cast<int>(GetParam().size()); }
};
INSTANTIATE_TEST_SUITE_P(Placements, Shrinking,
                         testing::Values(std::vector{0, 0, 0, 0}, std::vector{0, 1, 2, 3}, std::vector{0, 0, 1, 1, 0}),
                         [](const auto& info) {
                           std::string name;
                           for (const int host : info.param) name += std::to_string(host);
                           return "Hosts" + name;
                         });

TEST_P(Shrinking, AllRanksGoOnAfterAnAbort) {
  expect_ranks(
      ranks(),
      [](Communicator& world) {
        if (world.rank() == 1) world.abort("to see what happens");
        call_until_it_fails(world);
        Communicator next = world.shrink();
        expect_works(next, world.rank(), world.ranks());
        EXPECT_EQ(next.name(), world.name());
        EXPECT_THROW(world.barrier(), Error);
        world.destroy();
        expect_works(next, next.rank(), next.ranks());
      },
      on_hosts(GetParam()));
}

TEST_P(Shrinking, WaitsAsLongAsTheLongestPatience) {
  expect_ranks(
      ranks(),
      [](Communicator& world) {
        if (world.rank() == 1) world.abort("to see what happens");
        call_until_it_fails(world);
        if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        Communicator next = world.shrink(std::chrono::milliseconds::max());
        expect_works(next, world.rank(), world.ranks());
      },
      on_hosts(GetParam()));
}

TEST_P(Shrinking, LeavesOutWhoeverLeft) {
  for (const int leaver : {0, 2}) {
    expect_ranks(
        ranks(),
        [leaver](Communicator& world) {
          sum_of_ranks(world);
          if (world.rank() == leaver) return world.destroy();
          EXPECT_THROW(world.barrier(), Error);
          Communicator next = world.shrink();
          expect_works(next, world.rank() - (world.rank() > leaver ? 1 : 0), world.ranks() - 1);
        },
        on_hosts(GetParam()));
  }
}

TEST_P(Shrinking, CanBeDoneAgainWithWhatCameOfIt) {
  expect_ranks(
      ranks(),
      [](Communicator& world) {
        Communicator one = world.shrink();
        expect_works(one, world.rank(), world.ranks());
        if (one.rank() == 1) return;
        call_until_it_fails(one);
        Communicator other = one.shrink();
        expect_works(other, one.rank() - (one.rank() > 1 ? 1 : 0), one.ranks() - 1);
        Communicator third = one.shrink();
        expect_works(third, other.rank(), other.ranks());
      },
      on_hosts(GetParam()));
}

TEST_P(Shrinking, NamesWhoeverLivesAndDoesNotCall) {
  for (const int absent : {0, 2}) {
    std::atomic<int> through{0};
    Together together(ranks());
    expect_ranks(
        ranks(),
        [&, absent](Communicator& world) {
          together.wait();
          if (world.rank() == absent) {
            while (through != world.ranks() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          } else {
            try {
              world.shrink(std::chrono::seconds(1));
              ADD_FAILURE() << "nothing was thrown";
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), ErrorCode::kTimeout) << error.what();
              EXPECT_EQ(error.peer(), absent) << error.what();
              EXPECT_NE(std::string(error.what()).find("did not call shrink()"), std::string::npos) << error.what();
            }
            ++through;
          }
          // Nothing had failed, and nothing has.
          expect_works(world, world.rank(), world.ranks());
        },
        on_hosts(GetParam()));
  }
}

TEST_P(Shrinking, OfACommunicatorThatWasSplitOffLeavesTheParentAlone) {
  expect_ranks(
      ranks(),
      [](Communicator& world) {
        auto part = world.split(world.rank() == 1 ? -1 : 0, 0);
        if (part && world.rank() != 2) {
          call_until_it_fails(*part);
        } else if (part) {
          part->destroy();
        }
        if (part && world.rank() != 2) {
          Communicator next = part->shrink();
          expect_works(next, world.rank() == 0 ? 0 : world.rank() - 2, world.ranks() - 2);
        }
        expect_works(world, world.rank(), world.ranks());
      },
      on_hosts(GetParam()));
}

TEST_P(Shrinking, WhileThreadsAndStreamsWaitOnTheOldOne) {
  expect_ranks(
      ranks(),
      [](Communicator& world) {
        sum_of_ranks(world);
        if (world.rank() == 3) return;
        HostStream stream;
        std::vector<float> data(1000, 1);
        const Work pending = world.all_reduce(data.data(), data.data(), data.size(), DataType::kF32, kSum, stream);
        std::thread waiter([&] {
          float value = 0;
          EXPECT_THROW(world.recv(&value, 1, DataType::kF32, 3), Error);
        });
        Communicator next = world.shrink();
        waiter.join();
        EXPECT_THROW(pending.wait(), Error);
        expect_works(next, world.rank() - (world.rank() > 3 ? 1 : 0), world.ranks() - 1);
      },
      on_hosts(GetParam()));
}

TEST(Shrink, OfOneRankIsThatRank) {
  Communicator alone = Communicator::create(UniqueId::create(), 0, 1);
  Communicator next = alone.shrink();
  expect_works(next, 0, 1);
}

}  // namespace
}  // namespace tutti
