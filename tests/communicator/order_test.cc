#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/ranks.h"

namespace tutti {
namespace {

class Order : public testing::TestWithParam<const char*> {
 protected:
  static RankSetup setup() { return with_config({{"TUTTI_SHM_DISABLE", GetParam()}}); }
};
INSTANTIATE_TEST_SUITE_P(Transports, Order, testing::Values("0", "1"),
                         [](const auto& info) { return info.param[0] == '0' ? "SharedMemory" : "Tcp"; });

// Each call has a size and a result of its own, so that a call in the wrong place is found.
TEST_P(Order, CallsOfSeveralThreadsInAnAgreedOrderAreOneSequence) {
  expect_ranks(
      3,
      [](Communicator& communicator) {
        constexpr int kThreads = 3;
        std::atomic<int> ticket{0};
        in_threads(kThreads, [&](int thread) {
          for (int i = thread; i < 150; i += kThreads) {
            while (ticket.load() != i) std::this_thread::yield();
            const std::size_t count = static_cast<std::size_t>(i * 41 % 3000 + 1);
            std::vector<int> values(count, i + communicator.rank());
            if (i % 2 == 0) {
              communicator.all_reduce(std::span<const int>(values), std::span(values));
              ASSERT_EQ(values.back(), 3 * i + 3) << "call " << i;
            } else {
              communicator.broadcast(std::span(values), i % 3);
              ASSERT_EQ(values.back(), i + i % 3) << "call " << i;
            }
            ticket.store(i + 1);
          }
        });
      },
      setup());
}

// Equal calls may be issued in any order: they pair up by number, whichever thread issues them.
TEST_P(Order, EqualCallsOfSeveralThreadsNeedNoAgreement) {
  expect_ranks(
      2,
      [](Communicator& communicator) {
        in_threads(3, [&](int) {
          for (int i = 0; i < 60; ++i) {
            std::vector<int> values(700, 1);
            communicator.all_reduce(std::span<const int>(values), std::span(values));
            ASSERT_EQ(std::count(values.begin(), values.end(), 2), 700);
          }
        });
        EXPECT_EQ(communicator.statistics().collectives.at("all_reduce").calls, 180u);
      },
      setup());
}

// Rank 0 waits in a receive that is served last of all.
TEST_P(Order, AWaitingReceiveHoldsUpNoCollectiveAndNoOtherPair) {
  expect_ranks(
      3,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        int late = 0;
        std::atomic<bool> received{false};
        std::thread waiting;
        if (rank == 0) {
          waiting = std::thread([&] {
            communicator.recv(&late, 1, DataType::kI32, 1, 7);
            received = true;
          });
        }
        for (int i = 0; i < 40; ++i) {
          std::vector<int> values(static_cast<std::size_t>(i) * 50 + 1, rank);
          communicator.all_reduce(std::span<const int>(values), std::span(values));
          ASSERT_EQ(values.back(), 3);
          // The same pair with another tag, and another pair.
          for (const int sender : {1, 2}) {
            std::vector<int> message(values.size(), i);
            if (rank == sender) communicator.send(std::span<const int>(message), 0, 8);
            if (rank != 0) continue;
            std::ranges::fill(message, -1);
            communicator.recv(std::span(message), sender, 8);
            ASSERT_EQ(message.back(), i);
          }
        }
        EXPECT_FALSE(received);
        communicator.barrier();
        const int value = 99;
        if (rank == 1) communicator.send(&value, 1, DataType::kI32, 0, 7);
        if (waiting.joinable()) waiting.join();
        EXPECT_EQ(late, rank == 0 ? 99 : 0);
      },
      setup());
}

TEST_P(Order, AWaitingSendHoldsUpNoCollectiveAndNoOtherTag) {
  expect_ranks(
      2,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        std::vector<int> big(100'000, 5);
        std::atomic<bool> sent{false};
        std::thread waiting;
        if (rank == 1) {
          waiting = std::thread([&] {
            communicator.send(std::span<const int>(big), 0, 7);
            sent = true;
          });
        }
        int value = 0;
        for (int i = 0; i < 40; ++i) {
          communicator.barrier();
          value = i;
          if (rank == 1) communicator.send(&value, 1, DataType::kI32, 0);
          if (rank == 0) communicator.recv(&value, 1, DataType::kI32, 1);
          ASSERT_EQ(value, i);
        }
        EXPECT_FALSE(sent);
        communicator.barrier();
        if (rank == 0) {
          std::vector<int> taken(big.size());
          communicator.recv(std::span(taken), 1, 7);
          EXPECT_EQ(taken, big);
        }
        if (waiting.joinable()) waiting.join();
      },
      setup());
}

// Who has its result may wait for others in some other way, on another communicator or over the application's own
// channels: they must get theirs without its help.
TEST_P(Order, F65AnEndedCallNeedsNothingMoreFromARankThatHasItsResult) {
  constexpr int kRanks = 4;
  std::atomic<int> ended{0};
  RankSetup with_small_rings = setup();
  with_small_rings.options.config["TUTTI_RING_BYTES"] = "64K";
  with_small_rings.options.config["TUTTI_CHUNK_BYTES"] = "30K";
  with_small_rings.options.config["TUTTI_ALGO"] = "scatter:one_shot;broadcast:binomial";
  with_small_rings.patience = std::chrono::seconds(30);
  expect_ranks(
      kRanks,
      [&ended](Communicator& communicator) {
        constexpr std::size_t kCount = 500'000;
        int calls = 0;
        const auto wait_for_others = [&] {
          doing("waiting for the others in its own way");
          ++ended;
          ++calls;
          while (ended.load() < kRanks * calls) std::this_thread::yield();
        };
        for (int root = 0; root < kRanks; ++root) {
          std::vector<float> all(communicator.rank() == root ? kRanks * kCount : 0, 1.5f);
          std::vector<float> own(kCount);
          doing("scatter");
          communicator.scatter(std::span<const float>(all), std::span(own), root);
          wait_for_others();
          doing("broadcast");
          communicator.broadcast(std::span(own), root);
          wait_for_others();
        }
      },
      with_small_rings);
}

}  // namespace
}  // namespace tutti
