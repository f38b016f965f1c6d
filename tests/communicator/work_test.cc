#include "tutti/work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "communicator/ways.h"
#include "support/ranks.h"
#include "support/together.h"
#include "tutti/group.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

class Works : public OnHosts {};
TUTTI_ON_ALL_HOSTS(Works);

template <class Condition>
void until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(milliseconds(1));
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kAborted;
}

TEST(Work, OfNoCallIsDone) {
  const Work work;
  EXPECT_TRUE(work.done());
  EXPECT_NO_THROW(work.wait());
  EXPECT_TRUE(work.wait(milliseconds(0)));
  EXPECT_FALSE(work.error());
  EXPECT_EQ(work.sequence(), 0u);
  EXPECT_EQ(work.source(), -1);
  int called = 0;
  work.then([&](const Work&) { ++called; });
  EXPECT_EQ(called, 1);
  // There is no call that could keep it.
  EXPECT_NO_THROW(work.then([](const Work&) { throw std::runtime_error("lost"); }));
  EXPECT_NO_THROW(work.then([](const Work&) { throw 1; }));
  EXPECT_FALSE(work.error());
}

TEST_P(Works, OfABlockingCallIsDoneAndHasItsNumber) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        int value = 1;
        communicator.barrier();
        const Work work = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
        EXPECT_TRUE(work.done());
        EXPECT_EQ(work.sequence(), 2u);
        EXPECT_EQ(work.issued(), Work::Time{});
      },
      setup());
}

// Rank 0 is late: the others may poll, wait for a while, and go on to wait.
TEST_P(Works, MayBePolledAndAwaitedForAWhile) {
  std::atomic<int> gave_up{0};
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        HostStream stream;
        int value = 1;
        if (communicator.rank() == 0) until([&] { return gave_up.load() == kRanks - 1; });
        const Work work = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, stream);
        if (communicator.rank() > 0) {
          EXPECT_FALSE(work.wait(milliseconds(20)));
          EXPECT_FALSE(work.done());
          EXPECT_FALSE(work.error());
          EXPECT_EQ(work.ended(), Work::Time{});
          ++gave_up;
        }
        until([&] { return work.done(); });
        EXPECT_TRUE(work.wait(milliseconds(0)));
        EXPECT_EQ(value, 3);
      },
      setup());
}

TEST_P(Works, CallBackWhenTheyHaveEnded) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        for (int i = 0; i < 20; ++i) {
          int value = 1;
          int seen = 0;
          std::atomic<int> called{0};
          const Work work = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, stream);
          work.then([&](const Work& ended) {
            EXPECT_TRUE(ended.done());
            EXPECT_TRUE(ended.wait(milliseconds(0)));
            EXPECT_FALSE(ended.error());
            EXPECT_NE(ended.ended(), Work::Time{});
            seen = value;
            ++called;
          });
          work.wait();
          // Whoever has waited finds what the callbacks did.
          EXPECT_EQ(called, 1);
          EXPECT_EQ(seen, 3);
          work.then([&](const Work&) { ++called; });
          EXPECT_EQ(called, 2);
        }
      },
      setup());
}

// A chain of calls in which each callback issues the next.
TEST_P(Works, ChainFurtherCallsByTheirCallbacks) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        std::vector<int> values(1000, 1);
        std::atomic<int> left{10};
        std::function<void(const Work&)> next = [&](const Work&) {
          if (--left == 0) return;
          communicator.all_reduce(values.data(), values.data(), values.size(), DataType::kI32, kSum, stream).then(next);
        };
        communicator.all_reduce(values.data(), values.data(), values.size(), DataType::kI32, kSum, stream).then(next);
        until([&] { return left == 0; });
        EXPECT_EQ(values.back(), 59049);  // 3^10
      },
      setup());
}

// Ranks 1 and 2 send to rank 0, which receives in a group, on a stream, and both, from whom it names or from anybody.
TEST_P(Works, NameTheirOwnSource_B1) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        HostStream stream;
        for (const bool streamed : {false, true}) {
          for (const bool anybody : {false, true}) {
            doing(std::string(streamed ? "streamed" : "blocking") + (anybody ? ", anybody" : ""));
            int in[3] = {-1, -1, -1};
            Work works[3];
            Group group(streamed ? Stream(stream) : Stream());
            if (rank > 0) communicator.send(&rank, 1, DataType::kI32, 0, 7);
            if (rank == 0) {
              for (const int i : {2, 1}) {
                works[i] = communicator.recv(&in[i], 1, DataType::kI32, anybody ? kAnySource : i, 7);
                EXPECT_EQ(works[i].source(), -1);
              }
            }
            int sum = 1;
            works[0] = communicator.all_reduce(&sum, &sum, 1, DataType::kI32, kSum);
            const Work all = group.end();
            all.wait();
            EXPECT_EQ(works[0].source(), -1);
            EXPECT_EQ(all.source(), -1);
            EXPECT_EQ(sum, 3);
            communicator.barrier();  // no message of the next round is taken in this one
            if (rank > 0) continue;
            for (const int i : {1, 2}) {
              EXPECT_EQ(works[i].source(), in[i]);
              if (!anybody) {
                EXPECT_EQ(in[i], i);
              }
            }
            EXPECT_EQ(in[1] + in[2], 3);
          }
        }
      },
      setup());
}

TEST_P(Works, OfAGroupHaveTheirOwnNumbersAndTimes_B1) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        std::uint64_t number = 0;
        for (const bool streamed : {false, true}) {
          std::vector<int> values(10'000, 1);
          std::vector<Work> works;
          Group group(streamed ? Stream(stream) : Stream());
          for (int i = 0; i < 3; ++i) {
            works.push_back(communicator.all_reduce(values.data(), values.data(), values.size(), DataType::kI32, kSum));
            EXPECT_EQ(works.back().issued(), Work::Time{});
          }
          const Work all = group.end();
          all.wait();
          for (const Work& work : works) {
            EXPECT_TRUE(work.done());
            EXPECT_EQ(work.sequence(), ++number);
            EXPECT_EQ(work.issued(), all.issued());
            EXPECT_LE(work.issued(), work.started());
            EXPECT_LE(work.started(), work.ended());
          }
          EXPECT_EQ(all.sequence(), 0u);
          EXPECT_EQ(all.started(), works.front().started());
          EXPECT_EQ(all.ended(), works.back().ended());
          // They ran one after the other.
          for (int i = 1; i < 3; ++i) {
            EXPECT_LE(works[static_cast<std::size_t>(i - 1)].started(), works[static_cast<std::size_t>(i)].started());
          }
        }
      },
      setup());
}

// Of one alone there is nothing else to name, but the Work of the group is still not that of the call.
TEST_P(Works, OfAGroupOfOneCallAreTwo_B1) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        Group group;
        const Work call = communicator.barrier();
        const Work all = group.end();
        EXPECT_EQ(call.sequence(), 1u);
        EXPECT_EQ(all.sequence(), 0u);
      },
      setup());
}

// One communicator of a group fails, the other does not.
TEST_P(Works, OfAGroupHaveTheirOwnErrors_B1) {
  const UniqueId id = UniqueId::create();
  expect_ranks(
      kRanks,
      [&id](Communicator& communicator) {
        Communicator doomed = Communicator::create(id, communicator.rank(), kRanks);
        HostStream stream;
        int value = 1, other = 1;
        doomed.abort("no");
        Group group(stream);
        const Work fails = doomed.all_reduce(&other, &other, 1, DataType::kI32, kSum);
        const Work goes_well = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
        const Work all = group.end();
        EXPECT_THROW(all.wait(), Error);
        EXPECT_THROW(fails.wait(), Error);
        EXPECT_NO_THROW(goes_well.wait());
        EXPECT_FALSE(goes_well.error());
        EXPECT_EQ(value, 3);
        ASSERT_TRUE(fails.error() && all.error());
        EXPECT_EQ(std::string(all.error()->what()), fails.error()->what());
      },
      setup());
}

// Each call calls back with its own Work; that of the group comes last, and is done when all have called back.
TEST_P(Works, OfAGroupCallBackThemselves_B1) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        const int rank = communicator.rank();
        HostStream stream;
        for (const bool streamed : {false, true}) {
          int in = -1, value = 1;
          std::string called;
          Group group(streamed ? Stream(stream) : Stream());
          communicator.barrier();
          communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum).then([&](const Work& work) {
            EXPECT_EQ(work.sequence() % 2, 0u);
            EXPECT_TRUE(work.done());
            called += "call ";
            throw std::runtime_error("the optimizer has no state");
          });
          communicator.send(&rank, 1, DataType::kI32, (rank + 1) % kRanks);
          const Work received = communicator.recv(&in, 1, DataType::kI32, (rank + 2) % kRanks);
          received.then([&](const Work& work) {
            EXPECT_EQ(work.source(), (rank + 2) % kRanks);
            called += "call ";
          });
          // With a stream, the callback may be too late for the call's end: it runs all the same.
          Work all;
          try {
            all = group.end();
            all.wait();
            ADD_FAILURE() << "no error";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kCallback);
          }
          EXPECT_EQ(called, "call call ");
          EXPECT_FALSE(received.error());
        }
      },
      setup());
}

// Calls of an inner group that was dropped are none of the outer one.
TEST(WorksOfGroups, EndWhenTheirGroupIsDropped_B1) {
  expect_ranks(2, [](Communicator& communicator) {
    Group outer;
    const Work kept = communicator.barrier();
    Work dropped;
    int called = 0;
    {
      Group inner;
      dropped = communicator.barrier();
      dropped.then([&](const Work&) { ++called; });
    }
    EXPECT_EQ(code_of([&] { dropped.wait(); }), ErrorCode::kAborted);
    EXPECT_EQ(called, 1);
    EXPECT_FALSE(kept.done());
    outer.end();
    EXPECT_TRUE(kept.done());
    EXPECT_FALSE(kept.error());
  });
}

TEST_P(Works, KeepWhatACallbackThrows) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        int value = 1;
        const Work work = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, stream);
        work.then([](const Work&) { throw std::runtime_error("the optimizer has no state"); });
        try {
          work.wait();
          ADD_FAILURE() << "no error";
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("the optimizer has no state"), std::string::npos) << error.what();
          EXPECT_EQ(error.code(), ErrorCode::kCallback) << "nobody passed a wrong argument";
        }
        work.then([](const Work&) { throw std::runtime_error("later"); });
        work.then([](const Work&) { throw 1; });
        EXPECT_NE(std::string(work.error()->what()).find("the optimizer has no state"), std::string::npos);
        EXPECT_EQ(value, 3);
        communicator.barrier();  // which stays usable
      },
      setup());
}

TEST_P(Works, KeepTheCodeOfAnErrorThatACallbackThrows) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        const Work work = communicator.barrier(stream);
        work.then([](const Work&) { throw Error(ErrorCode::kTimeout, "another call was late", 1); });
        try {
          work.wait();
          ADD_FAILURE() << "no error";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kTimeout);
          EXPECT_EQ(error.peer(), 1);
        }
      },
      setup());
}

TEST_P(Works, MayNotBeAwaitedInACallbackOfTheirOwnStream) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream, other;
        std::atomic<bool> refused{false};
        std::atomic<bool> synchronize_refused{false};
        int first = 1, second = 1, third = 1;
        Work late;
        const Work work = communicator.all_reduce(&first, &first, 1, DataType::kI32, kSum, stream);
        work.then([&](const Work&) {
          late = communicator.recv(&second, 1, DataType::kI32, communicator.rank(), 0, stream);  // sent afterwards
          refused = code_of([&] { late.wait(); }) == ErrorCode::kInvalidArgument;
          synchronize_refused = code_of([&] { stream.synchronize(); }) == ErrorCode::kInvalidArgument;
        });
        work.wait();
        EXPECT_TRUE(refused);
        EXPECT_TRUE(synchronize_refused);
        communicator.send(&first, 1, DataType::kI32, communicator.rank(), 0);
        late.wait();
        EXPECT_EQ(second, 3);
        // Another stream may be awaited.
        const Work outer = communicator.barrier(stream);
        outer.then(
            [&](const Work&) { communicator.all_reduce(&third, &third, 1, DataType::kI32, kSum, other).wait(); });
        outer.wait();
        EXPECT_EQ(third, 3);
      },
      setup());
}

// Whatever the callback waits for comes after a call of its stream.
TEST_P(Works, MayAwaitInACallbackWhatComesAfterCallsOfItsStream) {
  for (const std::string what : {"work", "all of a stream", "end of a stream", "group of another thread"}) {
    expect_ranks(
        kRanks,
        [&](Communicator& communicator) {
          doing(what);
          HostStream stream, other;
          std::vector<int> values(50'000, 1);
          int value = 1;
          std::atomic<bool> called{false};
          const auto sum = [&](Stream where) {
            return communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, where);
          };
          Group group(stream);  // so that the callback is there before the call
          communicator.barrier().then([&](const Work&) {
            communicator.all_reduce(values.data(), values.data(), values.size(), DataType::kI32, kSum, stream);
            if (what == "work") {
              sum(other).wait();
            } else if (what == "all of a stream") {
              sum(other);
              other.synchronize();
            } else if (what == "end of a stream") {
              HostStream brief;
              sum(brief);
            } else {
              Work work;
              std::atomic<bool> made{false};
              std::thread thread([&] {
                Group calls;
                work = sum({});
                made = true;
                calls.end();
              });
              until([&] { return made && work.issued() != Work::Time{}; });
              work.wait();
              thread.join();
            }
            called = true;
          });
          group.end();
          until([&] { return called.load(); });
          EXPECT_EQ(value, 3);
          stream.synchronize();
          EXPECT_EQ(values.back(), 3);
        },
        setup());
  }
}

// Also a thread that is in a group calls back: what callbacks call is theirs.
TEST_P(Works, CallBackOutsideTheGroupOfTheirThread) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        std::uint64_t number = 0;
        int called = 0;
        const auto callback = [&](const Work&) {
          int value = 1;
          const Work direct = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
          EXPECT_EQ(value, 3);
          EXPECT_GT(direct.sequence(), number);
          number = direct.sequence();
          EXPECT_EQ(communicator.barrier(stream).sequence(), ++number);
          Group own;
          EXPECT_FALSE(communicator.barrier().done());
          own.end();
          ++number;
          ++called;
        };
        const Work on_stream = communicator.barrier(stream);
        on_stream.wait();
        const Work blocking = communicator.barrier();
        number = blocking.sequence();
        int value = 1;
        Group group;
        on_stream.then(callback);
        const Work grouped = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
        blocking.then(callback);
        EXPECT_EQ(called, 2);
        EXPECT_EQ(value, 1);
        EXPECT_FALSE(grouped.done());
        group.end();
        EXPECT_EQ(value, 3);
        EXPECT_EQ(communicator.barrier().sequence(), number + 2);
      },
      setup());
}

// The thread that calls back is not there for the stream meanwhile, but whoever waits is.
TEST_P(Works, AreHelpedByWhoeverWaitsWhileACallbackIsBusy) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        std::atomic<bool> in_callback{false}, go_on{false};
        int first = 1, second = 1;
        Group group(stream);  // so that the callback is there before the call
        const Work busy = communicator.all_reduce(&first, &first, 1, DataType::kI32, kSum);
        busy.then([&](const Work&) {
          in_callback = true;
          until([&] { return go_on.load(); });
        });
        group.end();
        until([&] { return in_callback.load(); });
        const Work work = communicator.all_reduce(&second, &second, 1, DataType::kI32, kSum, stream);
        work.wait();
        EXPECT_EQ(second, 3);
        EXPECT_FALSE(busy.done());
        go_on = true;
        busy.wait();
      },
      setup());
}

// In a callback, blocking calls wait behind what the stream still has to do: that goes on.
TEST_P(Works, CallBackIntoBlockingCallsAndDestroy) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        std::vector<int> values(50'000, 1);
        int value = 1;
        const Work first = communicator.barrier(stream);
        first.then([&](const Work&) {
          for (int i = 0; i < 5; ++i) {
            communicator.all_reduce(values.data(), values.data(), values.size(), DataType::kI32, kSum, stream);
          }
          communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
          communicator.barrier(stream);
          communicator.destroy();
        });
        first.wait();
        EXPECT_EQ(value, 3);
        EXPECT_EQ(values.back(), 243);
        EXPECT_THROW(communicator.barrier(), Error);
      },
      setup());
}

TEST_P(Works, MayEndTheirStreamInACallback) {
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        auto stream = std::make_unique<HostStream>();
        int value = 1;
        const Work first = communicator.barrier(*stream);
        Work last;
        first.then([&](const Work&) {
          last = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, *stream);
          stream.reset();
        });
        first.wait();
        last.wait();
        EXPECT_EQ(value, 3);
      },
      setup());
}

class Limits : public OnHosts {};
TUTTI_ON_ALL_HOSTS(Limits);

// Blocking calls, calls on a stream and in a group; limits of the communicator and of the call.
TEST_P(Limits, FailTheCommunicatorOnAllRanks) {
  for (const char* where : {"blocking", "stream", "group"}) {
    for (const bool own_limit : {false, true}) {
      std::atomic<int> failed{0};
      Together together(kRanks);
      RankSetup limited = setup();
      if (!own_limit) limited.options.timeout = milliseconds(60);
      const auto ends = run_ranks(
          kRanks,
          [&](Communicator& communicator) {
            int value = 1;
            communicator.barrier(Stream().within(std::chrono::seconds(60)));
            together.wait();  // a limit ends all calls, also those of ranks that are still in that barrier
            if (communicator.rank() == 1) {
              until([&] { return failed.load() == kRanks - 1; });
              return;
            }
            HostStream thread;
            const Stream plain = std::string(where) == "stream" ? Stream(thread) : Stream();
            const Stream stream = own_limit ? plain.within(milliseconds(60)) : plain;
            try {
              if (std::string(where) == "group") {
                Group group(stream);
                communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
                group.end();
              } else {
                communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, stream).wait();
              }
            } catch (const Error&) {
              ++failed;
              throw;
            }
            ++failed;
          },
          limited);
      for (const int r : {0, 2}) {
        const RankEnd& end = ends[static_cast<std::size_t>(r)];
        ASSERT_TRUE(end.error) << where << ": " << end.text;
        EXPECT_EQ(end.error->code(), ErrorCode::kTimeout) << where << ": " << end.text;
        for (const char* part : {"all_reduce i32×1 sum #2", "\"dp\"", "60 ms"}) {
          EXPECT_NE(end.text.find(part), std::string::npos) << where << ": no " << part << " in: " << end.text;
        }
      }
    }
  }
}

TEST_P(Limits, DoNotDisturbCallsThatEndInTime) {
  RankSetup limited = setup();
  limited.options.timeout = std::chrono::seconds(60);
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        for (int i = 0; i < 50; ++i) {
          int value = 1;
          communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, stream).wait();
          communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
          EXPECT_EQ(value, 9);
        }
      },
      limited);
}

// Rank 0 is late, so that the others look at their limits.
TEST_P(Limits, MayBeTheLongestThereIs) {
  RankSetup limited = setup();
  limited.options.timeout = milliseconds::max();
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        HostStream stream;
        int value = 1;
        const auto come_late = [&] {
          if (communicator.rank() == 0) std::this_thread::sleep_for(milliseconds(30));
        };
        come_late();
        communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
        come_late();
        communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, Stream().within(milliseconds::max()));
        come_late();
        const Work work = communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, stream);
        EXPECT_TRUE(work.wait(milliseconds::max()));
        EXPECT_TRUE(work.done());
        EXPECT_EQ(value, 27);
      },
      limited);
}

TEST_P(Limits, OfAReceiveNameTheSender) {
  const auto ends = run_ranks(
      kRanks,
      [](Communicator& communicator) {
        int value = 0;
        communicator.barrier();
        if (communicator.rank() == 0) {
          communicator.recv(&value, 1, DataType::kI32, 2, 4, Stream().within(milliseconds(30)));
        } else {
          communicator.recv(&value, 1, DataType::kI32, 0, 4);
        }
      },
      setup());
  for (const RankEnd& end : ends) {
    ASSERT_TRUE(end.error) << end.text;
    EXPECT_EQ(end.error->code(), ErrorCode::kTimeout) << end.text;
    for (const char* part : {"recv i32×1 from 2 tag 4", "30 ms", "waits for rank 2"}) {
      EXPECT_NE(end.text.find(part), std::string::npos) << "no " << part << " in: " << end.text;
    }
  }
}

}  // namespace
}  // namespace tutti
