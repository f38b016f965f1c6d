#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "support/ranks.h"
#include "tutti/memory.h"

namespace tutti {
namespace {

struct Way {
  const char* name;
  std::vector<int> host_of;  // of three ranks
};

class Leaving : public testing::TestWithParam<std::tuple<Way, int>> {
 protected:
  static int leaver() { return std::get<1>(GetParam()); }
  static RankSetup setup() {
    RankSetup setup = on_hosts(std::get<0>(GetParam()).host_of);
    setup.options.name = "dp";
    return setup;
  }
  static void all_reduce(Communicator& communicator, std::size_t count) {
    std::vector<float> values(count, 1);
    communicator.all_reduce(std::span<const float>(values), std::span(values));
  }
  // Every rank but the leaver was told who is to blame, and in which call.
  static void expect_blame(const std::vector<RankEnd>& ends, const std::string& call) {
    for (int r = 0; r < static_cast<int>(ends.size()); ++r) {
      if (r == leaver()) continue;
      const RankEnd& end = ends[static_cast<std::size_t>(r)];
      ASSERT_TRUE(end.error) << "rank " << r << ": " << end.text;
      EXPECT_EQ(end.error->code(), ErrorCode::kRemote) << end.text;
      EXPECT_EQ(end.error->peer(), leaver()) << end.text;
      for (const std::string& part : {"rank " + std::to_string(leaver()), call, std::string("\"dp\"")}) {
        EXPECT_NE(end.text.find(part), std::string::npos) << "no " << part << " in: " << end.text;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(
    Ways, Leaving,
    testing::Combine(testing::Values(Way{"SharedMemory", {0, 0, 0}}, Way{"Tcp", {0, 1, 2}}, Way{"Both", {0, 0, 1}}),
                     testing::Values(0, 1, 2)),
    [](const auto& info) { return std::get<0>(info.param).name + ("Rank" + std::to_string(std::get<1>(info.param))); });

TEST_P(Leaving, BeforeTheFirstCallIsSaidSo) {
  const auto ends = run_ranks(
      3,
      [](Communicator& communicator) {
        if (communicator.rank() == leaver()) return communicator.destroy();
        communicator.barrier();
      },
      setup());
  expect_blame(ends, "left before its first call");
}

TEST_P(Leaving, ByAnExceptionFailsThoseWhoWaitInACollective) {
  for (const std::size_t count : {1, 100'000}) {
    const auto ends = run_ranks(
        3,
        [count](Communicator& communicator) {
          all_reduce(communicator, count);
          if (communicator.rank() == leaver()) throw std::runtime_error("the loader has no more data");
          all_reduce(communicator, count);
        },
        setup());
    EXPECT_NE(ends[static_cast<std::size_t>(leaver())].text.find("no more data"), std::string::npos);
    expect_blame(ends, "all_reduce f32×" + std::to_string(count) + " sum #2");
  }
}

// All that the root still waits for is that its buffer was read.
TEST(Leaving, EarlyFailsAnOwnerOfABufferThatIsReadInPlace) {
  constexpr std::size_t kCount = 100'000;
  const auto ends = run_ranks(2, [](Communicator& communicator) {
    const std::unique_ptr<void, void (*)(void*)> memory(allocate(kCount), deallocate);
    for (int i = 0; i < 10; ++i) {
      communicator.broadcast(memory.get(), memory.get(), kCount, DataType::kU8, 0);
      communicator.barrier();
    }
    if (communicator.rank() == 1) return;
    communicator.broadcast(memory.get(), memory.get(), kCount, DataType::kU8, 0);
  });
  ASSERT_TRUE(ends[0].error) << ends[0].text;
  EXPECT_EQ(ends[0].error->code(), ErrorCode::kRemote) << ends[0].text;
  EXPECT_NE(ends[0].text.find("rank 1"), std::string::npos) << ends[0].text;
}

TEST_P(Leaving, EarlyFailsThoseWhoReceive_F64) {
  const auto ends = run_ranks(
      3,
      [](Communicator& communicator) {
        communicator.barrier();
        if (communicator.rank() == leaver()) return;
        float value = 0;
        communicator.recv(&value, 1, DataType::kF32, leaver(), 3);
      },
      setup());
  EXPECT_FALSE(ends[static_cast<std::size_t>(leaver())].threw);
  expect_blame(ends, "recv f32×1 from " + std::to_string(leaver()) + " tag 3");
}

TEST_P(Leaving, EarlyFailsThoseWhoSend) {
  const auto ends = run_ranks(
      3,
      [](Communicator& communicator) {
        communicator.barrier();
        if (communicator.rank() == leaver()) return;
        std::vector<float> values(50'000);
        communicator.send(std::span<const float>(values), leaver());
      },
      setup());
  expect_blame(ends, "send f32×50000 to " + std::to_string(leaver()));
}

TEST_P(Leaving, AfterTheLastCallDisturbsNobody) {
  const auto ends = run_ranks(
      3,
      [](Communicator& communicator) {
        all_reduce(communicator, 70'000);
        if (communicator.rank() == leaver()) return;
        // The two that are left go on among themselves, also from any source.
        const int other = 3 - leaver() - communicator.rank();
        for (int i = 0; i < 10; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          int value = i;
          if (communicator.rank() < other) communicator.send(&value, 1, DataType::kI32, other);
          if (communicator.rank() > other) {
            EXPECT_EQ(communicator.recv(&value, 1, DataType::kI32, kAnySource).source(), other);
          }
          ASSERT_EQ(value, i);
        }
      },
      setup());
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

// The message was taken before its receiver left: its sender must not be told otherwise.
TEST_P(Leaving, RightAfterTakingAMessageIsNoErrorForItsSender) {
  for (int i = 0; i < 10; ++i) {
    const auto ends = run_ranks(
        3,
        [](Communicator& communicator) {
          std::vector<int> values(5000);
          if (communicator.rank() != leaver()) {
            communicator.send(std::span<const int>(values), leaver());
            return;
          }
          communicator.recv(std::span(values), kAnySource);
          communicator.recv(std::span(values), kAnySource);
        },
        setup());
    for (const RankEnd& end : ends) ASSERT_FALSE(end.threw) << end.text;
  }
}

TEST(Leaving, OfAllOthersFailsAReceiveFromAnySource) {
  const auto ends = run_ranks(3, [](Communicator& communicator) {
    int value = 0;
    if (communicator.rank() == 1) communicator.recv(&value, 1, DataType::kI32, kAnySource);
  });
  ASSERT_TRUE(ends[1].error) << ends[1].text;
  EXPECT_EQ(ends[1].error->code(), ErrorCode::kRemote) << ends[1].text;
  EXPECT_FALSE(ends[0].threw || ends[2].threw);
}

TEST(Leaving, FailsOneCommunicatorAndNoOther) {
  const std::array ids{UniqueId::create(), UniqueId::create()};
  const auto ends = run_threads(3, [&ids](int rank) {
    Communicator healthy = Communicator::create(ids[0], rank, 3);
    {
      Communicator doomed = Communicator::create(ids[1], rank, 3);
      for (int i = 0; i < 2 && rank != 2; ++i) EXPECT_THROW(doomed.barrier(), Error);
    }
    for (int i = 0; i < 20; ++i) {
      int sum = 1;
      healthy.all_reduce(&sum, &sum, 1, DataType::kI32, kSum);
      EXPECT_EQ(sum, 3);
    }
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST(Leaving, EndsTheSendsAndReceivesThatOtherThreadsWaitIn) {
  const auto ends = run_ranks(2, [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) {
      std::atomic<int> ended{0};
      in_threads(4, [&](int thread) {
        int value = 0;
        if (thread == 3) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return communicator.destroy();
        }
        try {
          if (thread == 0) communicator.send(&value, 1, DataType::kI32, 0, 1);
          if (thread > 0) communicator.recv(&value, 1, DataType::kI32, thread == 1 ? 0 : kAnySource, 2);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
          ++ended;
        }
      });
      EXPECT_EQ(ended, 3);
    }
    if (communicator.rank() == 0) {
      EXPECT_THROW(communicator.barrier(), Error);
    }
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

// Several threads of a rank wait when a peer leaves: all of them are told.
TEST(Leaving, FailsEveryWaitingThread) {
  const auto ends = run_ranks(2, [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) return;
    std::atomic<int> failed{0};
    in_threads(5, [&](int thread) {
      int value = 0;
      try {
        if (thread == 0) communicator.recv(&value, 1, DataType::kI32, 1, 1);
        if (thread == 1) communicator.send(&value, 1, DataType::kI32, 1, 2);
        if (thread == 2) communicator.recv(&value, 1, DataType::kI32, kAnySource, 3);
        if (thread > 2) communicator.barrier();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kRemote) << error.what();
        ++failed;
      }
    });
    EXPECT_EQ(failed, 5);
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

}  // namespace
}  // namespace tutti
