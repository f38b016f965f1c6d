#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "tutti/group.h"

namespace tutti {
namespace {

using Words = std::vector<std::uint32_t>;

class Probe : public testing::TestWithParam<const char*> {
 protected:
  static RankSetup setup() { return with_config({{"TUTTI_SHM_DISABLE", GetParam()}}); }
};
INSTANTIATE_TEST_SUITE_P(Transports, Probe, testing::Values("0", "1"),
                         [](const auto& info) { return info.param[0] == '0' ? "SharedMemory" : "Tcp"; });

// 0 elements; with the announcement; early between ranks of a host; in pieces.
constexpr std::size_t kCounts[] = {0, 1, 18, 19, 1024, 1025, 300'000};

Words words(std::size_t count) {
  Words words(count);
  std::iota(words.begin(), words.end(), static_cast<std::uint32_t>(count));
  return words;
}

TEST_P(Probe, SaysWhatTheNextReceiveTakes_B10) {
  expect_ranks(
      2,
      [](Communicator& communicator) {
        for (const std::size_t count : kCounts) {
          for (const int from : {0, kAnySource}) {
            if (communicator.rank() == 0) communicator.send(std::span<const std::uint32_t>(words(count)), 1, 7);
            if (communicator.rank() == 0) continue;
            const Message message = communicator.probe(from, 7);
            EXPECT_EQ(message.source, 0);
            EXPECT_EQ(message.tag, 7);
            EXPECT_EQ(message.count, count);
            EXPECT_EQ(message.type, DataType::kU32);
            EXPECT_EQ(message.bytes(), 4 * count);
            EXPECT_EQ(communicator.probe(from, 7).count, count) << "it takes nothing";
            EXPECT_EQ(communicator.try_probe(from, 7)->count, count);
            EXPECT_FALSE(communicator.try_probe(from, 8)) << "of another tag";
            Words taken(message.count);
            const Work work = communicator.recv(std::span(taken), message.source, 7);
            EXPECT_EQ(work.count(), count);
            EXPECT_TRUE(taken == words(count));
          }
        }
      },
      setup());
}

// What receives that were issued before are going to take is not for the next one.
TEST_P(Probe, StandsBehindReceivesThatWereIssued_B10) {
  expect_ranks(
      2,
      [](Communicator& communicator) {
        if (communicator.rank() == 0) {
          communicator.barrier();
          communicator.send(std::span<const std::uint32_t>(words(3)), 1);
          communicator.send(std::span<const std::uint32_t>(words(5)), 1);
          return;
        }
        HostStream stream;
        Words first(8);
        const Work work = communicator.recv(std::span(first), 0, 0, stream);
        communicator.barrier();
        EXPECT_EQ(communicator.probe(0).count, 5u);
        Words second(8);
        EXPECT_EQ(communicator.recv(std::span(second), kAnySource).count(), 5u);
        work.wait();
        EXPECT_EQ(work.count(), 3u);
        EXPECT_EQ(work.source(), 0);
      },
      setup());
}

TEST_P(Probe, OfARankThatHasLeftIsAnErrorUnlessItsMessageIsThere_B10) {
  const auto ends = run_ranks(
      3,
      [](Communicator& communicator) {
        communicator.barrier();
        if (communicator.rank() == 1) communicator.probe(0, 3);
        while (communicator.rank() == 2) communicator.try_probe(0, 3);
      },
      setup());
  for (const std::size_t rank : {1, 2}) {
    ASSERT_TRUE(ends[rank].error) << ends[rank].text;
    EXPECT_EQ(ends[rank].error->code(), ErrorCode::kRemote) << ends[rank].text;
    EXPECT_NE(ends[rank].text.find("probe from 0 tag 3"), std::string::npos) << ends[rank].text;
  }
}

TEST(Probes, AreRefusedWhereTheyCannotAnswer_B10) {
  expect_ranks(1, [](Communicator& communicator) {
    const auto refused = [](auto call) {
      try {
        call();
      } catch (const Error& error) {
        return error.code() == ErrorCode::kInvalidArgument;
      }
      return false;
    };
    EXPECT_TRUE(refused([&] { communicator.probe(1); }));
    EXPECT_TRUE(refused([&] { communicator.try_probe(-7); }));
    Group group;
    EXPECT_TRUE(refused([&] { communicator.probe(0); }));
    EXPECT_TRUE(refused([&] { communicator.try_probe(0); }));
    group.end();
    EXPECT_FALSE(communicator.try_probe(0));
  });
}

class LongerBuffers : public Probe {};
INSTANTIATE_TEST_SUITE_P(Transports, LongerBuffers, testing::Values("0", "1"),
                         [](const auto& info) { return info.param[0] == '0' ? "SharedMemory" : "Tcp"; });

TEST_P(LongerBuffers, KeepWhatLiesBehindTheMessage_B10) {
  expect_ranks(
      3,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        for (const std::size_t count : kCounts) {
          for (const int from : {2, kAnySource}) {
            for (const int how : {0, 1, 2}) {  // blocking, on a stream, in a group
              if (rank == 2) {
                communicator.send(std::span<const std::uint32_t>(words(count)), 0);
                communicator.send(std::span<const std::uint32_t>(words(count)), 1);
                continue;
              }
              Words taken(count + 40, 7);
              Work work;
              if (how == 0) work = communicator.recv(std::span(taken), from);
              if (how == 1) {
                HostStream stream;
                work = communicator.recv(std::span(taken), from, 0, stream);
                work.wait();
              }
              if (how == 2) {
                Group group;
                work = communicator.recv(std::span(taken), from);
                group.end();
              }
              EXPECT_EQ(work.count(), count) << how;
              EXPECT_EQ(work.source(), 2) << how;
              taken.resize(count + 40);
              EXPECT_TRUE(std::ranges::equal(std::span(taken).first(count), words(count)));
              EXPECT_TRUE(std::ranges::all_of(std::span(taken).subspan(count), [](auto word) { return word == 7; }));
            }
          }
        }
      },
      setup());
}

TEST_P(LongerBuffers, AreNoneWhereTheMessageIsLongerOrOfAnotherType_B10) {
  for (const auto& [sent, type] : {std::pair{std::size_t{11}, DataType::kU32}, {std::size_t{10}, DataType::kF32}}) {
    const auto ends = run_ranks(
        2,
        [&sent = sent, &type = type](Communicator& communicator) {
          Words buffer(20);
          if (communicator.rank() == 0) communicator.send(buffer.data(), sent, type, 1);
          if (communicator.rank() == 1) communicator.recv(buffer.data(), 10, DataType::kU32, 0);
        },
        setup());
    for (const RankEnd& end : ends) {
      ASSERT_TRUE(end.error) << end.text;
      EXPECT_EQ(end.error->code(), ErrorCode::kMismatch) << end.text;
      EXPECT_NE(end.text.find("at least as long"), std::string::npos) << end.text;
    }
  }
}

}  // namespace
}  // namespace tutti
