#include "tutti/group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "communicator/ways.h"
#include "support/ranks.h"

namespace tutti {
namespace {

class Groups : public OnHosts {};
TUTTI_ON_ALL_HOSTS(Groups);

ErrorCode code_of(const std::function<void()>& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (text != nullptr) *text = error.what();
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kAborted;
}

// Every rank sends to its neighbour before it receives from the other one.
TEST_P(Groups, LetARingExchangeInAnyOrder_F79) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
          std::vector<int> out(count, rank), in(count, -1);
          Group group;
          communicator.send(std::span<const int>(out), (rank + 1) % kRanks);
          const Work received = communicator.recv(std::span(in), (rank + kRanks - 1) % kRanks);
          EXPECT_FALSE(received.done());
          EXPECT_EQ(in.front(), -1);
          const Work work = group.end();
          EXPECT_TRUE(work.done());
          EXPECT_TRUE(received.done());
          EXPECT_EQ(in.front(), (rank + kRanks - 1) % kRanks);
          EXPECT_EQ(in.back(), (rank + kRanks - 1) % kRanks);
        }
      },
      setup());
}

TEST_P(Groups, LetARankSendToItself_F79) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        std::vector<int> out(100'000, rank + 5), in(out.size(), -1);
        Group group;
        communicator.send(std::span<const int>(out), rank);
        communicator.recv(std::span(in), rank);
        group.end();
        EXPECT_EQ(in, out);
      },
      setup());
}

TEST_P(Groups, HoldAThousandPairs_F79) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        constexpr int kPairs = 1000;
        std::vector<int> out(kPairs), in(kPairs, -1);
        Group group;
        // Receives in the opposite order of the sends, told apart by their tags.
        for (int i = 0; i < kPairs; ++i) {
          out[static_cast<std::size_t>(i)] = rank * kPairs + i;
          communicator.send(&out[static_cast<std::size_t>(i)], 1, DataType::kI32, (rank + 1) % kRanks, i % 10);
          const int last = kPairs - 1 - i;
          communicator.recv(&in[static_cast<std::size_t>(i)], 1, DataType::kI32, (rank + kRanks - 1) % kRanks,
                            last % 10);
        }
        group.end();
        // Of each tag, the messages come in the order in which they were sent.
        std::vector<int> next(10, 0);
        const int from = (rank + kRanks - 1) % kRanks;
        for (int i = 0; i < kPairs; ++i) {
          const auto tag = static_cast<std::size_t>((kPairs - 1 - i) % 10);
          ASSERT_EQ(in[static_cast<std::size_t>(i)], from * kPairs + 10 * next[tag]++ + static_cast<int>(tag)) << i;
        }
      },
      setup());
}

// All to all by send and receive, of another size for each pair.
TEST_P(Groups, ExchangeAllWithAllBySendAndReceive_F79) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        const auto size = [](int from, int to) { return static_cast<std::size_t>(from * 20'000 + to * 300 + 1); };
        for (int round = 0; round < 3; ++round) {
          std::vector<std::vector<int>> out(kRanks), in(kRanks);
          HostStream stream;
          Group group(round == 2 ? Stream(stream) : Stream());
          for (int i = 0; i < kRanks; ++i) {
            const int peer = round == 0 ? i : kRanks - 1 - i;
            const auto p = static_cast<std::size_t>(peer);
            out[p].assign(size(rank, peer), rank * 10 + peer);
            in[p].assign(size(peer, rank), -1);
            communicator.send(std::span<const int>(out[p]), peer);
            communicator.recv(std::span(in[p]), peer);
          }
          group.end().wait();
          for (int peer = 0; peer < kRanks; ++peer) {
            const auto& message = in[static_cast<std::size_t>(peer)];
            EXPECT_EQ(std::count(message.begin(), message.end(), peer * 10 + rank),
                      static_cast<std::ptrdiff_t>(message.size()));
          }
        }
      },
      setup());
}

TEST_P(Groups, FuseCollectivesWithSendsAndReceives) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        HostStream stream;
        for (const bool streamed : {false, true}) {
          std::vector<int> sum(5000, 1), all(3), token(1, rank);
          int next = -1;
          Group group(streamed ? Stream(stream) : Stream());
          // Where in between the messages are is each rank's own affair.
          const auto exchange = [&] {
            communicator.send(&rank, 1, DataType::kI32, (rank + 1) % kRanks);
            communicator.recv(&next, 1, DataType::kI32, kAnySource);
          };
          if (rank == 0) exchange();
          communicator.all_reduce(sum.data(), sum.data(), sum.size(), DataType::kI32, kSum);
          if (rank == 1) exchange();
          communicator.all_gather(std::span<const int>(token), std::span(all));
          if (rank == 2) exchange();
          const Work work = group.end();
          work.wait();
          EXPECT_EQ(work.sequence(), 0u);
          EXPECT_EQ(sum.back(), 3);
          EXPECT_EQ(all, (std::vector<int>{0, 1, 2}));
          EXPECT_EQ(next, (rank + 2) % kRanks);
        }
        EXPECT_EQ(communicator.barrier().sequence(), 5u);
      },
      setup());
}

// Two communicators whose calls come in another order on every rank.
TEST_P(Groups, OverSeveralCommunicatorsHaveNoOrderBetweenThem) {
  const UniqueId id = UniqueId::create();
  expect_ranks(
      kRanks,
      [&id](Communicator& first) {
        Communicator second = Communicator::create(id, first.rank(), kRanks);
        HostStream stream;
        for (int i = 0; i < 10; ++i) {
          std::vector<int> a(3000, 1), b(3000, 2), c(10, 3);
          Group group(i % 2 == 0 ? Stream() : Stream(stream));
          const auto on_first = [&] {
            first.all_reduce(a.data(), a.data(), a.size(), DataType::kI32, kSum);
            first.all_reduce(c.data(), c.data(), c.size(), DataType::kI32, kSum);
          };
          if (first.rank() == 1) on_first();
          second.all_reduce(b.data(), b.data(), b.size(), DataType::kI32, kSum);
          if (first.rank() != 1) on_first();
          group.end().wait();
          EXPECT_EQ(a.back() + b.back() + c.back(), 3 + 6 + 9);
        }
      },
      setup());
}

// One thread makes the communicators of all ranks and acts for all of them.
class OneThread : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kRanks = 4;
  static Options options(int rank) {
    Options options;
    const std::string hosts = GetParam();
    if (hosts == "Tcp") options.config["TUTTI_SHM_DISABLE"] = "1";
    if (hosts == "Both") options.config["TUTTI_HOSTID"] = "host" + std::to_string(rank / 2);
    return options;
  }
  static std::vector<Communicator> all_ranks() {
    const UniqueId id = UniqueId::create();
    std::vector<Communicator> ranks;
    Group group;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(Communicator::create(id, rank, kRanks, options(rank)));
      std::string text;
      EXPECT_EQ(code_of([&] { ranks.back().barrier(); }, &text), ErrorCode::kInvalidArgument);
      EXPECT_NE(text.find("Group::end()"), std::string::npos) << text;
    }
    EXPECT_TRUE(group.end().done());
    return ranks;
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, OneThread, testing::Values("SharedMemory", "Tcp", "Both"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OneThread, MakesAllRanksAndActsForThem) {
  std::vector<Communicator> ranks = all_ranks();
  HostStream stream;
  for (const std::size_t count : {std::size_t{1}, std::size_t{2000}, std::size_t{400'000}}) {
    for (const bool streamed : {false, true}) {
      std::vector<std::vector<int>> values;
      for (int rank = 0; rank < kRanks; ++rank) values.emplace_back(count, rank);
      Group group(streamed ? Stream(stream) : Stream());
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        ranks[r].all_reduce(values[r].data(), values[r].data(), count, DataType::kI32, kSum);
      }
      group.end().wait();
      for (const auto& result : values) {
        ASSERT_EQ(std::count(result.begin(), result.end(), 6), static_cast<std::ptrdiff_t>(count));
      }
    }
  }
  // Each rank's send to the next, then all receives.
  std::vector<int> in(kRanks, -1);
  std::vector<int> out = {0, 1, 2, 3};
  Group group;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks[static_cast<std::size_t>(rank)].send(&out[static_cast<std::size_t>(rank)], 1, DataType::kI32,
                                               (rank + 1) % kRanks);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks[static_cast<std::size_t>(rank)].recv(&in[static_cast<std::size_t>(rank)], 1, DataType::kI32, kAnySource);
  }
  group.end();
  EXPECT_EQ(in, (std::vector<int>{3, 0, 1, 2}));
}

TEST(Group, WithoutCallsIsDone) {
  Group group;
  const Work work = group.end();
  EXPECT_TRUE(work.done());
  EXPECT_NO_THROW(work.wait());
  HostStream stream;
  Group streamed(stream);
  EXPECT_NO_THROW(streamed.end().wait());
  stream.synchronize();
}

TEST(Group, NestsAndIssuesWithTheOutermost) {
  expect_ranks(2, [](Communicator& communicator) {
    const int other = 1 - communicator.rank();
    int in = -1, sum = 1;
    const int out = communicator.rank();
    const auto exchange = [&] {  // a function that does not know of the group around it
      Group group;
      communicator.send(&out, 1, DataType::kI32, other);
      communicator.recv(&in, 1, DataType::kI32, other);
      return group.end();
    };
    Group group;
    communicator.all_reduce(&sum, &sum, 1, DataType::kI32, kSum);
    const Work inner = exchange();
    EXPECT_FALSE(inner.done());
    EXPECT_EQ(code_of([&] { inner.wait(); }), ErrorCode::kInvalidArgument);
    const Work work = group.end();
    EXPECT_TRUE(inner.done());
    EXPECT_EQ(in, other);
    EXPECT_EQ(sum, 2);
    exchange();
  });
}

// Rank 1 comes when rank 0 has been told that it does not.
TEST(Group, InsideAnotherOneMayHaveALimitOfItsOwn) {
  const auto ends = run_ranks(2, [](Communicator& communicator) {
    if (communicator.rank() == 1) {
      while (true) communicator.recv(static_cast<int*>(nullptr), 0, DataType::kI32, 0);
    }
    Group outer(Stream().within(std::chrono::seconds(60)));
    {
      Group inner(Stream().within(std::chrono::milliseconds(30)));
      communicator.barrier();
      inner.end();
    }
    outer.end();
  });
  ASSERT_TRUE(ends[0].error) << ends[0].text;
  EXPECT_EQ(ends[0].error->code(), ErrorCode::kTimeout) << ends[0].text;
  EXPECT_NE(ends[0].text.find("within 30 ms"), std::string::npos) << ends[0].text;
}

TEST(Group, DroppedByAnotherThreadEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a thread sanitizer starts no threads after a fork
  EXPECT_DEATH(
      {
        auto group = std::make_unique<Group>();
        std::thread([&] { group.reset(); }).join();
      },
      "a Group is destroyed by another thread");
}

TEST(Group, ThatIsNotEndedDropsItsCalls) {
  expect_ranks(2, [](Communicator& communicator) {
    int value = 1;
    Work dropped;
    try {
      Group group;
      dropped = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
      communicator.send(&value, 1, DataType::kI32, 0);
      throw std::runtime_error("the batch is empty");
    } catch (const std::runtime_error&) {
    }
    EXPECT_TRUE(dropped.done());
    EXPECT_EQ(code_of([&] { dropped.wait(); }), ErrorCode::kAborted);
    // An inner group drops its own only.
    Group outer;
    communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
    {
      Group inner;
      communicator.barrier();
    }
    outer.end();
    EXPECT_EQ(value, 2);
    EXPECT_EQ(communicator.statistics().collectives.at("barrier").calls, 0u);
    EXPECT_EQ(communicator.barrier().sequence(), 2u);
  });
}

TEST(Group, ChecksHowItIsUsed) {
  expect_ranks(2, [](Communicator& communicator) {
    HostStream stream, other;
    int value = 1;
    const auto call = [&](Stream on) { communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, on); };
    Group group(stream);
    EXPECT_EQ(code_of([&] { call(stream); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { Group inner(other); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { communicator.all_reduce(nullptr, &value, 1, DataType::kI32, kSum); }),
              ErrorCode::kInvalidArgument);
    {
      Group inner(stream);
      EXPECT_EQ(code_of([&] { group.end(); }), ErrorCode::kInvalidArgument);
      std::thread([&] { EXPECT_EQ(code_of([&] { inner.end(); }), ErrorCode::kInvalidArgument); }).join();
      inner.end();
    }
    call(Stream().within(std::chrono::seconds(60)));
    group.end().wait();
    EXPECT_EQ(value, 2);
    EXPECT_EQ(code_of([&] { group.end(); }), ErrorCode::kInvalidArgument);
    communicator.barrier();
  });
}

TEST(Group, FailsForACommunicatorThatWasDestroyedInIt) {
  expect_ranks(2, [](Communicator& communicator) {
    int value = 1;
    Group group;
    const Work work = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
    communicator.destroy();
    EXPECT_EQ(code_of([&] { group.end(); }), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(work.done());
    EXPECT_TRUE(work.error());
  });
}

TEST(Group, ThrowsTheFirstErrorWhenAllHaveEnded) {
  const std::array ids{UniqueId::create(), UniqueId::create()};
  const auto ends = run_threads(2, [&ids](int rank) {
    Communicator good = Communicator::create(ids[0], rank, 2);
    Communicator bad = Communicator::create(ids[1], rank, 2);
    std::vector<int> a(10'000, 1), b(1000, 1);
    Group group;
    bad.all_reduce(b.data(), b.data(), static_cast<std::size_t>(10 + rank), DataType::kI32, kSum);
    good.all_reduce(a.data(), a.data(), a.size(), DataType::kI32, kSum);
    EXPECT_EQ(code_of([&] { group.end(); }), ErrorCode::kMismatch);
    EXPECT_EQ(a.back(), 2);
    good.barrier();
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST(Group, ThrowsTheReasonWhyACommunicatorCannotBeMade) {
  const UniqueId id = UniqueId::create();
  std::vector<Communicator> ranks;
  Options wrong;
  wrong.config["TUTTI_SOCKET_IFNAME"] = "nosuch0";
  Group group;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(Communicator::create(id, rank, 3, rank == 1 ? wrong : Options()));
  std::string text;
  EXPECT_EQ(code_of([&] { group.end(); }, &text), ErrorCode::kInvalidSetting);
  EXPECT_NE(text.find("nosuch0"), std::string::npos) << text;
  for (Communicator& rank : ranks) {
    EXPECT_EQ(code_of([&] { rank.barrier(); }, &text), ErrorCode::kInvalidArgument);
    EXPECT_NE(text.find("could not be made"), std::string::npos) << text;
  }
}

// The Communicator that was returned may be gone, or moved, before the group ends.
TEST(Group, MakesCommunicatorsThatMoveMeanwhile) {
  const UniqueId first = UniqueId::create();
  const UniqueId second = UniqueId::create();
  std::vector<Communicator> ranks;
  {
    Group group;
    for (int rank = 0; rank < 2; ++rank) {
      Communicator made = Communicator::create(first, rank, 2);
      ranks.push_back(std::move(made));
      const Communicator dropped = Communicator::create(second, rank, 2);
    }
    group.end();
  }
  int values[2] = {1, 2};
  Group group;
  for (std::size_t r = 0; r < 2; ++r) ranks[r].all_reduce(&values[r], &values[r], 1, DataType::kI32, kSum);
  group.end();
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 3);
}

}  // namespace
}  // namespace tutti
