#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "communicator/ways.h"
#include "support/ranks.h"
#include "tutti/stream.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Streams : public OnHosts {};
TUTTI_ON_ALL_HOSTS(Streams);

Work sum(Communicator& communicator, std::vector<int>& values, Stream stream) {
  return communicator.all_reduce(values.data(), values.data(), values.size(), DataType::kI32, kSum, stream);
}

// Until it is true; a test that waits longer hangs, and is told so.
template <class Condition>
void until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(milliseconds(1));
}

TEST_P(Streams, RunCallsInTheOrderOfTheirIssue) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        // Each call's input is the output of the one before.
        std::vector<int> values(3000, 1);
        std::vector<Work> works;
        for (int i = 0; i < 15; ++i) works.push_back(sum(communicator, values, stream));
        works.back().wait();
        EXPECT_EQ(values.front(), 14348907);  // 3^15
        EXPECT_EQ(values.back(), 14348907);
        for (std::size_t i = 0; i < works.size(); ++i) {
          EXPECT_TRUE(works[i].done()) << i;
          EXPECT_FALSE(works[i].error()) << i;
          EXPECT_EQ(works[i].sequence(), i + 1);
          EXPECT_LE(works[i].issued(), works[i].started());
          EXPECT_LE(works[i].started(), works[i].ended());
          if (i > 0) {
            EXPECT_LE(works[i - 1].ended(), works[i].started());
          }
        }
      },
      setup());
}

TEST_P(Streams, OfferEveryCollective) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        const int rank = communicator.rank();
        std::vector<int> block(100, rank + 1), all(300, -1), spread(300, -1), mine(100, -1), root(100, rank);
        std::vector<int> collected(300, -1), out(100, -1), reduced(100, -1), turned(300, -1);
        communicator.all_gather(std::span<const int>(block), std::span(all), stream);
        communicator.all_to_all(std::span<const int>(all), std::span(turned), stream);
        communicator.reduce_scatter(std::span<const int>(all), std::span(mine), kSum, stream);
        communicator.broadcast(std::span(root), 1, stream);
        communicator.gather(std::span<const int>(block), std::span(collected), 2, stream);
        communicator.scatter(std::span<const int>(collected), std::span(out), 2, stream);
        communicator.reduce(std::span<const int>(block), std::span(reduced), kSum, 0, stream);
        communicator.barrier(stream).wait();
        for (int r = 0; r < kRanks; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r) * 100], r + 1);
        for (int r = 0; r < kRanks; ++r) EXPECT_EQ(turned[static_cast<std::size_t>(r) * 100], rank + 1);
        EXPECT_EQ(mine.front(), 3 * (rank + 1));
        EXPECT_EQ(root.back(), 1);
        EXPECT_EQ(out.back(), rank + 1);
        if (rank == 0) {
          EXPECT_EQ(reduced.back(), 6);
        }
        stream.synchronize();
      },
      setup());
}

// Nobody waits for it: the stream's thread does it alone.
TEST_P(Streams, GoOnWhileTheirCallerComputes) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        std::vector<int> values(500'000, communicator.rank());
        const Work work = sum(communicator, values, stream);
        std::uint64_t computed = 0;
        until([&] {
          computed += 1;
          return work.done();
        });
        EXPECT_EQ(values.front(), 3);
        EXPECT_EQ(values.back(), 3);
      },
      setup());
}

TEST_P(Streams, AndBlockingCallsOfOneCommunicatorAreOneOrder) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream one, two;
        std::vector<int> values(2000, 1);
        std::vector<Work> works;
        for (int i = 0; i < 15; ++i) {
          // Ranks choose differently where the calls run.
          const int where = (i + communicator.rank()) % 3;
          works.push_back(sum(communicator, values, where == 0 ? Stream() : where == 1 ? Stream(one) : Stream(two)));
          EXPECT_EQ(works.back().sequence(), static_cast<std::uint64_t>(i + 1));
        }
        for (const Work& work : works) work.wait();
        EXPECT_EQ(values.front(), 14348907);
        EXPECT_EQ(values.back(), 14348907);
      },
      setup());
}

TEST_P(Streams, LetSendsAndReceivesProgressTogether) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        const int rank = communicator.rank();
        constexpr std::size_t kCount = 50'000;
        std::vector<std::vector<int>> out(kRanks, std::vector<int>(kCount)), in(kRanks, std::vector<int>(kCount));
        std::vector<Work> works;
        for (int round = 0; round < 5; ++round) {
          // All sends before all receives, to oneself as well: one after the other they would wait for ever.
          for (int peer = 0; peer < kRanks; ++peer) {
            std::ranges::fill(out[static_cast<std::size_t>(peer)], 100 * round + 10 * rank + peer);
            works.push_back(
                communicator.send(std::span<const int>(out[static_cast<std::size_t>(peer)]), peer, round, stream));
          }
          for (int peer = 0; peer < kRanks; ++peer) {
            works.push_back(communicator.recv(std::span(in[static_cast<std::size_t>(peer)]), peer, round, stream));
          }
          for (const Work& work : works) work.wait();
          for (int peer = 0; peer < kRanks; ++peer) {
            EXPECT_EQ(in[static_cast<std::size_t>(peer)].front(), 100 * round + 10 * peer + rank);
            EXPECT_EQ(in[static_cast<std::size_t>(peer)].back(), 100 * round + 10 * peer + rank);
            EXPECT_EQ(works[static_cast<std::size_t>(kRanks + peer)].source(), peer);
          }
          works.clear();
        }
        EXPECT_EQ(communicator.statistics().collectives.at("send").calls, 15u);
      },
      setup());
}

// A receive on a stream has its place among the receives, even though nobody has carried it on yet.
TEST_P(Streams, MatchMessagesInIssueOrderWithBlockingCalls) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        for (int i = 0; i < 50; ++i) {
          int first = -1, second = -1;
          if (communicator.rank() == 1) {
            const Work work = communicator.recv(&first, 1, DataType::kI32, 0, 0, stream);
            communicator.recv(&second, 1, DataType::kI32, 0);
            work.wait();
            ASSERT_EQ(first, 2 * i);
            ASSERT_EQ(second, 2 * i + 1);
          } else if (communicator.rank() == 0) {
            first = 2 * i;
            second = 2 * i + 1;
            const Work work = communicator.send(&first, 1, DataType::kI32, 1, 0, stream);
            communicator.send(&second, 1, DataType::kI32, 1);
            work.wait();
          }
        }
      },
      setup());
}

TEST_P(Streams, AWaitingReceiveHoldsUpNothingElseOnItsStream) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        const int rank = communicator.rank();
        int late = -1;
        Work waiting;
        if (rank == 0) waiting = communicator.recv(&late, 1, DataType::kI32, kAnySource, 7, stream);
        std::vector<int> values(1000, 1);
        for (int i = 0; i < 5; ++i) sum(communicator, values, stream);
        communicator.barrier(stream).wait();
        EXPECT_EQ(values.back(), 243);
        if (rank == 0) {
          EXPECT_FALSE(waiting.done());
        }
        communicator.barrier();
        const int value = 42;
        if (rank == 2) communicator.send(&value, 1, DataType::kI32, 0, 7, stream).wait();
        if (rank == 0) {
          waiting.wait();
          EXPECT_EQ(late, 42);
          EXPECT_EQ(waiting.source(), 2);
        }
      },
      setup());
}

TEST_P(Streams, TakeCallsFromSeveralThreads) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        // Equal calls pair up by number, whichever thread issues them.
        in_threads(3, [&](int) {
          std::vector<std::vector<int>> values(20, std::vector<int>(500, 1));
          std::vector<Work> works;
          for (auto& vector : values) works.push_back(sum(communicator, vector, stream));
          for (const Work& work : works) work.wait();
          for (const auto& vector : values) ASSERT_EQ(std::count(vector.begin(), vector.end(), 3), 500);
        });
        stream.synchronize();
        EXPECT_EQ(communicator.statistics().collectives.at("all_reduce").calls, 60u);
      },
      setup());
}

TEST_P(Streams, SynchronizeWaitsForAllAndThrowsTheFirstErrorOnce) {
  std::barrier all(kRanks);
  const auto ends = run_ranks(
      kRanks,
      [&all](Communicator& communicator) {
        HostStream stream;
        std::vector<int> values(1000, 1);
        for (int i = 0; i < 5; ++i) sum(communicator, values, stream);
        stream.synchronize();
        EXPECT_EQ(values.back(), 243);
        all.arrive_and_wait();
        communicator.abort("the loss is not a number");
        const Work failed = sum(communicator, values, stream);
        try {
          stream.synchronize();
          ADD_FAILURE() << "no error";
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("the loss is not a number"), std::string::npos) << error.what();
        }
        EXPECT_TRUE(failed.error());
        stream.synchronize();  // has been told
      },
      setup());
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

// The Communicator goes while calls of its are still on the stream, and so does the stream.
TEST_P(Streams, AndCommunicatorsMayGoBeforeTheirWorks) {
  std::vector<std::vector<int>> values(kRanks, std::vector<int>(200'000, 1));
  std::vector<std::vector<Work>> works(kRanks);
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        HostStream stream;
        for (int i = 0; i < 5; ++i) works[rank].push_back(sum(communicator, values[rank], stream));
        if (rank == 1) {
          Communicator moved = std::move(communicator);
          moved.destroy();  // waits for them
          EXPECT_TRUE(works[rank].back().done());
        }
      },
      setup());
  for (std::size_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(values[r].back(), 243);
    for (const Work& work : works[r]) {
      EXPECT_TRUE(work.done());
      EXPECT_NO_THROW(work.wait());
      EXPECT_EQ(work.error(), std::nullopt);
    }
  }
}

// Whoever destroys a communicator waits for its collectives, and ends what waits for a peer.
TEST_P(Streams, DestroyEndsPendingSendsAndReceives) {
  std::atomic<bool> ended{false};
  expect_ranks(
      kRanks,
      [&ended](Communicator& communicator) {
        HostStream stream;
        std::vector<int> values(1000, 1);
        int never = 0;
        std::vector<Work> transfers;
        if (communicator.rank() == 0) {
          transfers.push_back(communicator.recv(&never, 1, DataType::kI32, 1, 5, stream));
          transfers.push_back(communicator.recv(&never, 1, DataType::kI32, kAnySource, 6, stream));
          transfers.push_back(communicator.send(&never, 1, DataType::kI32, 2, 7, stream));
        }
        const Work work = sum(communicator, values, stream);
        // A peer that leaves first would be the reason.
        while (communicator.rank() != 0 && !ended) std::this_thread::yield();
        communicator.destroy();
        ended = true;
        EXPECT_TRUE(work.done());
        EXPECT_EQ(values.back(), 3);
        for (const Work& transfer : transfers) {
          EXPECT_TRUE(transfer.done());
          const auto error = transfer.error();
          ASSERT_TRUE(error);
          EXPECT_EQ(error->code(), ErrorCode::kInvalidArgument) << error->what();
        }
        EXPECT_THROW(sum(communicator, values, stream), Error);
      },
      setup());
}

TEST_P(Streams, CheckArgumentsWhenTheCallIsMade) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        int value = 1;
        try {
          communicator.all_reduce(nullptr, &value, 1, DataType::kI32, kSum, stream);
          ADD_FAILURE() << "no error";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        }
        EXPECT_THROW(communicator.send(&value, 1, DataType::kI32, 9, 0, stream), Error);
        communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, stream).wait();
        EXPECT_EQ(value, 3);
      },
      setup());
}

// Two communicators, two threads a rank with a stream each, which use them without regard to each other.
TEST(StreamsOfTwoRanks, OfTwoThreadsUseTwoCommunicatorsInAnyInterleaving_F65) {
  constexpr int kCalls = 500;
  const std::array ids{UniqueId::create(), UniqueId::create()};
  const auto ends = run_threads(2, [&ids](int rank) {
    std::vector<Communicator> communicators;
    for (const UniqueId& id : ids) communicators.push_back(Communicator::create(id, rank, 2));
    HostStream streams[2];
    in_threads(2, [&](int thread) {
      // Which call runs where, when it is awaited, and how long the thread dawdles: another interleaving every time.
      std::mt19937 random(static_cast<unsigned>(1000 * rank + thread));
      Communicator& communicator = communicators[static_cast<std::size_t>(thread)];
      std::vector<std::vector<int>> values(8);
      std::vector<Work> works(values.size());
      for (int i = 0; i < kCalls; ++i) {
        const auto slot = static_cast<std::size_t>(i) % values.size();
        works[slot].wait();
        if (!values[slot].empty()) {
          ASSERT_EQ(values[slot].back(), 2 * (i - 8)) << "call " << i - 8;
        }
        values[slot].assign(static_cast<std::size_t>(i * 37 % 3000 + 1), i);
        const bool blocking = random() % 4 == 0;
        works[slot] = sum(communicator, values[slot], blocking ? Stream() : Stream(streams[thread]));
        if (random() % 3 == 0) works[random() % works.size()].wait();
        if (random() % 16 == 0) std::this_thread::yield();
      }
      streams[thread].synchronize();
    });
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

// Two communicators on one stream: their calls start in one order, which is the same on both ranks.
TEST(StreamsOfTwoRanks, CarryCallsOfSeveralCommunicators) {
  const std::array ids{UniqueId::create(), UniqueId::create()};
  const auto ends = run_threads(2, [&ids](int rank) {
    Communicator first = Communicator::create(ids[0], rank, 2);
    Communicator second = Communicator::create(ids[1], rank, 2, over_tcp().options);
    HostStream stream;
    std::vector<int> values(5000, 1);
    for (int i = 0; i < 10; ++i) {
      sum(first, values, stream);
      sum(second, values, stream);
    }
    stream.synchronize();
    EXPECT_EQ(values.back(), 1 << 20);
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST(StreamsOfTwoRanks, EndCallsWhoseCommunicatorFailedAlsoBehindOnesThatWait) {
  const std::array ids{UniqueId::create(), UniqueId::create()};
  std::atomic<bool> go{false};
  const auto ends = run_threads(2, [&](int rank) {
    Communicator stuck = Communicator::create(ids[0], rank, 2);
    Communicator doomed = Communicator::create(ids[1], rank, 2);
    HostStream stream;
    if (rank == 0) {
      std::vector<int> values(10, 1);
      const Work first = sum(stuck, values, stream);
      const Work behind = sum(doomed, values, stream);
      const Work last = sum(doomed, values, stream);
      doomed.abort();
      EXPECT_THROW(behind.wait(), Error);
      EXPECT_THROW(last.wait(), Error);
      EXPECT_FALSE(first.done());
      doomed.destroy();
      go = true;
      first.wait();
      EXPECT_EQ(values.back(), 2);
    } else {
      until([&] { return go.load(); });
      std::vector<int> values(10, 1);
      stuck.all_reduce(std::span<const int>(values), std::span(values));
    }
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

}  // namespace
}  // namespace tutti
