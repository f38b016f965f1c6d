#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "tutti/group.h"

namespace tutti {
namespace {

using Words = std::vector<std::uint32_t>;

// A message that nobody else sends: its words follow from who sends it to whom and its number.
Words message(int from, int to, int number, std::size_t count) {
  Words words(count);
  std::iota(words.begin(), words.end(), static_cast<std::uint32_t>(from * 1'000'000 + to * 100'000 + number * 1000));
  return words;
}

struct Place {
  const char* name;
  std::vector<int> host_of;  // of four ranks
};

class PointToPoint : public testing::TestWithParam<Place> {
 protected:
  static RankSetup setup() { return on_hosts(GetParam().host_of); }
};
INSTANTIATE_TEST_SUITE_P(Transports, PointToPoint,
                         testing::Values(Place{"SharedMemory", {0, 0, 0, 0}}, Place{"Tcp", {0, 1, 2, 3}},
                                         Place{"Both", {0, 0, 1, 1}}),
                         [](const auto& info) { return info.param.name; });

TEST_P(PointToPoint, MessagesOfEverySizeArrive) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        int number = 0;
        for (const std::size_t count : {0, 1, 7, 17, 18, 19, 24, 25, 1000, 16'384, 16'385, 333'333}) {
          ++number;
          for (int from = 0; from < 4; ++from) {
            const int to = (from + number) % 4;
            if (from == to) continue;
            doing("message " + std::to_string(number) + " from " + std::to_string(from));
            if (rank == from) communicator.send(std::span<const std::uint32_t>(message(from, to, number, count)), to);
            if (rank != to) continue;
            Words taken(count, 7);
            EXPECT_EQ(communicator.recv(std::span(taken), from).source(), from);
            EXPECT_TRUE(taken == message(from, to, number, count)) << count << " words from " << from << " to " << to;
          }
        }
        // Nothing at all, from nowhere to nowhere.
        if (rank == 0) communicator.send(nullptr, 0, DataType::kF64, 3, 1);
        if (rank == 3) communicator.recv(nullptr, 0, DataType::kF64, 0, 1);
      },
      setup());
}

TEST_P(PointToPoint, TagsMatchInIssueOrderAndWaitForNoOtherTag) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        constexpr int kTags = 4;
        constexpr int kMessages = 12;
        if (communicator.rank() == 1) {
          in_threads(kTags, [&communicator](int tag) {
            for (int i = 0; i < kMessages; ++i) {
              communicator.send(std::span<const std::uint32_t>(message(1, tag, i, 300)), 3, tag);
            }
          });
        }
        if (communicator.rank() != 3) return;
        // Tag after tag, the last one first: the messages of the others wait.
        for (int tag = kTags - 1; tag >= 0; --tag) {
          for (int i = 0; i < kMessages; ++i) {
            Words taken(300);
            communicator.recv(std::span(taken), 1, tag);
            ASSERT_TRUE(taken == message(1, tag, i, 300)) << "tag " << tag << " message " << i;
          }
        }
      },
      setup());
}

// Short ones come with their announcements, and are kept until somebody receives them, in whatever order that is.
TEST_P(PointToPoint, MessagesThatNobodyWaitsForYetAreKeptWhole) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        constexpr int kMessages = 30;
        const int rank = communicator.rank();
        const auto count_of = [](int number) { return static_cast<std::size_t>(number % 21); };  // up to 80 bytes
        if (rank == 1) {
          in_threads(kMessages, [&](int number) {
            const Words words = message(1, 2, number, count_of(number));
            communicator.send(std::span<const std::uint32_t>(words), 2, number);
          });
        }
        for (int number = kMessages - 1; rank == 2 && number >= 0; --number) {
          Words taken(count_of(number), 7);
          communicator.recv(std::span(taken), 1, number);
          EXPECT_TRUE(taken == message(1, 2, number, count_of(number))) << "message " << number;
        }
      },
      setup());
}

TEST_P(PointToPoint, AReceiveFromAnySourceTakesWhatIsThereAndNamesTheSender) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        constexpr int kMessages = 30;
        if (communicator.rank() != 0) {
          for (int i = 0; i < kMessages; ++i) {
            communicator.send(std::span<const std::uint32_t>(message(communicator.rank(), 0, i, 40)), 0, 3);
          }
          return;
        }
        std::vector<int> next(4, 0);
        for (int i = 0; i < 3 * kMessages; ++i) {
          Words taken(40);
          const int from = communicator.recv(std::span(taken), kAnySource, 3).source();
          ASSERT_TRUE(from >= 1 && from <= 3);
          ASSERT_TRUE(taken == message(from, 0, next[static_cast<std::size_t>(from)]++, 40));
        }
        EXPECT_EQ(next, (std::vector{0, kMessages, kMessages, kMessages}));
      },
      setup());
}

// A receive from any source waits for nobody in particular: it takes a message that comes while it waits.
TEST_P(PointToPoint, AReceiveFromAnySourceWaitsForAny) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        for (int sender = 1; sender < 4; ++sender) {
          communicator.barrier();
          int value = communicator.rank();
          if (communicator.rank() == 0) {
            EXPECT_EQ(communicator.recv(&value, 1, DataType::kI32, kAnySource).source(), sender);
            EXPECT_EQ(value, sender);
          } else if (communicator.rank() == sender) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            communicator.send(&value, 1, DataType::kI32, 0);
          }
        }
      },
      setup());
}

TEST_P(PointToPoint, ASendReturnsOnlyWhenTheMessageIsTaken) {
  std::atomic<int> returned{0};
  expect_ranks(
      4,
      [&returned](Communicator& communicator) {
        int number = 0;
        for (const std::size_t count : {0, 1, 1000, 200'000}) {
          communicator.barrier();
          if (communicator.rank() == 0) {
            communicator.send(std::span<const std::uint32_t>(message(0, 2, number, count)), 2);
            ++returned;
          }
          if (communicator.rank() == 2) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            EXPECT_EQ(returned, number) << "a message of " << count << " words was thought taken";
            Words taken(count);
            communicator.recv(std::span(taken), 0);
          }
          communicator.barrier();
          EXPECT_EQ(returned, ++number);
        }
      },
      setup());
}

TEST_P(PointToPoint, ARankSendsToItselfFromAnotherThread) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        const int self = communicator.rank();
        int number = 0;
        for (const std::size_t count : {0, 1, 100, 100'000}) {
          ++number;
          std::thread sender(
              [&] { communicator.send(std::span<const std::uint32_t>(message(self, self, number, count)), self, 2); });
          Words taken(count);
          EXPECT_EQ(communicator.recv(std::span(taken), self, 2).source(), self);
          sender.join();
          EXPECT_TRUE(taken == message(self, self, number, count));
        }
      },
      setup());
}

// More than have a place of their own at the receiver.
TEST(PointToPoint, MoreSendsThanHaveAPlaceArrive) {
  expect_ranks(3, [](Communicator& communicator) {
    constexpr int kSends = 80;
    if (communicator.rank() == 1) {
      in_threads(kSends, [&communicator](int i) {
        communicator.send(std::span<const std::uint32_t>(message(1, 2, i, 50)), 2);
      });
    }
    if (communicator.rank() != 2) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::set<std::uint32_t> firsts;
    for (int i = 0; i < kSends; ++i) {
      Words taken(50);
      communicator.recv(std::span(taken), 1);
      firsts.insert(taken.front());
      ASSERT_EQ(taken.back(), taken.front() + 49);
    }
    EXPECT_EQ(firsts.size(), kSends);
  });
}

TEST_P(PointToPoint, ManyMessagesOfATagHideNoneOfAnother_D8) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        constexpr int kSends = 300;
        int values[kSends + 1];
        if (communicator.rank() == 1) {
          HostStream stream;
          for (int i = 0; i <= kSends; ++i) {
            values[i] = i;
            communicator.send(&values[i], 1, DataType::kI32, 2, i == kSends ? 2 : 1, stream);
          }
          stream.synchronize();
        }
        for (int i = kSends; communicator.rank() == 2 && i >= 0; --i) {
          int value = -1;
          communicator.recv(&value, 1, DataType::kI32, 1, i == kSends ? 2 : 1);
          ASSERT_EQ(value, i == kSends ? i : kSends - 1 - i);
        }
      },
      setup());
}

// The stream's thread takes no step while a callback waits for another thread's send to the same rank.
TEST_P(PointToPoint, ASendNeedsNoOtherSendsThread_D7) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        if (communicator.rank() == 0) {
          const int values[] = {1, 2, 3};
          std::atomic<bool> entered{false}, sent{false};
          HostStream stream;
          Group group(stream);  // so that the callback is there before the call
          const Work first = communicator.send(&values[0], 1, DataType::kI32, 3, 1);
          first.then([&](const Work&) {
            entered = true;
            while (!sent) std::this_thread::yield();
          });
          group.end();
          communicator.send(&values[2], 1, DataType::kI32, 3, 3, stream);
          while (!entered) std::this_thread::yield();
          // Tells the receiver to go on.
          communicator.send(&values[1], 1, DataType::kI32, 3, 4);
          communicator.send(&values[1], 1, DataType::kI32, 3, 2);
          sent = true;
          stream.synchronize();
        }
        if (communicator.rank() != 3) return;
        for (const int tag : {1, 4, 3, 2}) {
          int value = 0;
          communicator.recv(&value, 1, DataType::kI32, 0, tag);
          EXPECT_EQ(value, tag == 4 ? 2 : tag);
        }
        // It leaves at once: what it has taken is sent nevertheless.
      },
      setup());
}

TEST_P(PointToPoint, AllExchangeWithAllByThreads_F79) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        const int self = communicator.rank();
        std::atomic<int> wrong{0};
        in_threads(8, [&](int thread) {
          const int peer = thread / 2;
          for (int i = 0; i < 8; ++i) {
            const auto count = static_cast<std::size_t>(i * i * 161 % 5000);
            if (thread % 2 == 0) {
              communicator.send(std::span<const std::uint32_t>(message(self, peer, i, count)), peer);
            } else {
              Words taken(count);
              communicator.recv(std::span(taken), peer);
              wrong += taken != message(peer, self, i, count);
            }
          }
        });
        EXPECT_EQ(wrong, 0);
      },
      setup());
}

TEST_P(PointToPoint, ARingOfReceivesBeforeSendsCompletesWithTwoThreads_F79) {
  expect_ranks(
      4,
      [](Communicator& communicator) {
        const int self = communicator.rank();
        for (int i = 0; i < 50; ++i) {
          Words taken(1500);
          in_threads(2, [&](int thread) {
            if (thread == 0) communicator.recv(std::span(taken), (self + 3) % 4);
            if (thread == 1)
              communicator.send(std::span<const std::uint32_t>(message(self, 0, i, 1500)), (self + 1) % 4);
          });
          ASSERT_TRUE(taken == message((self + 3) % 4, 0, i, 1500));
        }
      },
      setup());
}

}  // namespace
}  // namespace tutti
