#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "communicator/ways.h"
#include "support/ranks.h"
#include "tutti/group.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Abort : public OnHosts {};
TUTTI_ON_ALL_HOSTS(Abort);

template <class Condition>
void until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(milliseconds(1));
}

// What rank 0 waits in while another of its threads aborts; nobody else comes to it.
struct Wait {
  const char* name;
  std::function<void(Communicator&)> call;
};
const std::vector<Wait> kWaits = {
    {"all_reduce",
     [](Communicator& communicator) {
       std::vector<float> values(100'000, 1);
       communicator.all_reduce(std::span<const float>(values), std::span(values));
     }},
    {"recv",
     [](Communicator& communicator) {
       int value = 0;
       communicator.recv(&value, 1, DataType::kI32, kAnySource);
     }},
    {"send",
     [](Communicator& communicator) {
       std::vector<float> values(100'000, 1);
       communicator.send(std::span<const float>(values), 1);
     }},
    {"stream",
     [](Communicator& communicator) {
       HostStream stream;
       communicator.barrier(stream).wait();
     }},
    {"polled stream",
     [](Communicator& communicator) {
       HostStream stream;
       const Work work = communicator.barrier(stream);
       until([&] { return work.done(); });
       work.wait();
     }},
    {"group",
     [](Communicator& communicator) {
       int value = 0;
       Group group;
       communicator.recv(&value, 1, DataType::kI32, 1);
       communicator.barrier();
       group.end();
     }},
};

TEST_P(Abort, FromAnotherThreadWakesAWaiter_F58) {
  for (const Wait& wait : kWaits) {
    SCOPED_TRACE(wait.name);
    std::atomic<int> told{0};
    std::barrier all(kRanks);
    const auto ends = run_ranks(
        kRanks,
        [&](Communicator& communicator) {
          communicator.barrier();
          all.arrive_and_wait();  // nobody is in that barrier any more
          const auto expect_told = [&](ErrorCode code, const std::string& text, const std::function<void()>& call) {
            try {
              call();
              ADD_FAILURE() << "no error";
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), code) << error.what();
              EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
            }
          };
          if (communicator.rank() == 0) {
            std::thread thread([&] {
              std::this_thread::sleep_for(milliseconds(20));
              communicator.abort("out of patience");
            });
            expect_told(ErrorCode::kAborted, "out of patience", [&] { wait.call(communicator); });
            thread.join();
            expect_told(ErrorCode::kAborted, "out of patience", [&] { communicator.barrier(); });
          } else {
            // A receive that nobody sends for: it ends when the news is here.
            int value = 0;
            expect_told(ErrorCode::kRemote, "aborted: out of patience",
                        [&] { communicator.recv(&value, 1, DataType::kI32, communicator.rank(), 8); });
          }
          ++told;
        },
        setup());
    for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
    EXPECT_EQ(told, kRanks);
  }
}

// Peers do not answer: neither abort nor destroy waits for them.
TEST_P(Abort, AndDestroyWaitForNobody_F58) {
  std::array ids{UniqueId::create(), UniqueId::create(), UniqueId::create()};
  std::atomic<bool> ended{false};
  const auto ends = run_ranks(
      kRanks,
      [&](Communicator& communicator) {
        std::vector<Communicator> others;
        for (const UniqueId& id : ids) others.push_back(Communicator::create(id, communicator.rank(), kRanks));
        if (communicator.rank() == 1) {
          // Does nothing at all until the others have gone.
          until([&] { return ended.load(); });
          return;
        }
        HostStream stream;
        std::vector<int> values(1000, 1);
        std::vector<Work> works;
        for (Communicator& other : others) {
          works.push_back(other.all_reduce(values.data(), values.data(), 1, DataType::kI32, kSum, stream));
        }
        const auto start = std::chrono::steady_clock::now();
        if (communicator.rank() == 0) {
          for (Communicator& other : others) other.abort();
          for (Communicator& other : others) other.destroy();
        } else {
          for (const Work& work : works) EXPECT_THROW(work.wait(), Error);
          for (Communicator& other : others) other.destroy();
        }
        for (const Work& work : works) EXPECT_TRUE(work.done());
        EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
        if (communicator.rank() == 0) ended = true;
      },
      setup());
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST_P(Abort, OfOneCommunicatorLeavesOthersAlone) {
  const UniqueId id = UniqueId::create();
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        Communicator doomed = Communicator::create(id, communicator.rank(), kRanks);
        if (communicator.rank() == 2) doomed.abort("no");
        EXPECT_THROW(doomed.barrier(), Error);
        for (int i = 0; i < 20; ++i) {
          int value = 1;
          communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
          EXPECT_EQ(value, 3);
        }
      },
      setup());
}

TEST_P(Abort, KeepsTheFirstReason) {
  const auto ends = run_ranks(
      kRanks,
      [](Communicator& communicator) {
        if (communicator.rank() == 0) {
          communicator.abort("first");
          communicator.abort("second");
        }
        communicator.barrier();
      },
      setup());
  for (int r = 0; r < kRanks; ++r) {
    const RankEnd& end = ends[static_cast<std::size_t>(r)];
    ASSERT_TRUE(end.error) << end.text;
    EXPECT_NE(end.text.find("first"), std::string::npos) << end.text;
    if (r > 0) {
      EXPECT_EQ(end.error->peer(), 0) << end.text;
    }
  }
}

TEST(AbortOfTwoRanks, ThenDestroyTwiceAndAbortAgainIsHarmless_F60) {
  const auto ends = run_ranks(2, [](Communicator& communicator) {
    communicator.abort("enough");
    try {
      communicator.destroy();  // may tell the reason, when no call has
    } catch (const Error&) {
    }
    communicator.destroy();
    communicator.abort("again");
    EXPECT_THROW(communicator.barrier(), Error);
    EXPECT_EQ(communicator.ranks(), 2);
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST(AbortOfTwoRanks, AfterDestroyIsHarmless_F60) {
  expect_ranks(2, [](Communicator& communicator) {
    communicator.barrier();
    communicator.destroy();
    communicator.abort("too late");
    communicator.destroy();
  });
}

// From several threads, while others issue calls of all kinds and one destroys.
TEST(AbortOfTwoRanks, RacesWithCallsAndDestroy_F60) {
  for (int round = 0; round < 20; ++round) {
    const auto ends = run_ranks(2, [&](Communicator& communicator) {
      HostStream stream;
      std::atomic<bool> go{false};
      in_threads(5, [&](int thread) {
        until([&] { return thread == 0 || go.load(); });
        go = true;
        try {
          int value = 0;
          for (int i = 0; i < 200; ++i) {
            if (thread == 0) communicator.barrier(stream);
            if (thread == 1) communicator.recv(&value, 1, DataType::kI32, 1, 3, stream);
            if (thread == 2) communicator.send(&value, 1, DataType::kI32, 1 - communicator.rank(), 4);
            if (thread == 3 && i == round * 3) communicator.abort("round " + std::to_string(round));
            if (thread == 4 && i == 199) communicator.destroy();
          }
        } catch (const Error&) {
          // Whichever came first.
        }
      });
      EXPECT_THROW(communicator.barrier(), Error);
    });
    for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
  }
}

}  // namespace
}  // namespace tutti
