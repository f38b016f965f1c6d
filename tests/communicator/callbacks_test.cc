#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/ways.h"
#include "support/ranks.h"
#include "tutti/group.h"
#include "tutti/work.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

class Callbacks : public OnHosts {};
TUTTI_ON_ALL_HOSTS(Callbacks);

template <class Condition>
void until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(milliseconds(1));
}

// What callbacks of one rank did, in order.
class Notes {
 public:
  void add(std::string note) {
    const std::lock_guard lock(mutex_);
    notes_.push_back(std::move(note));
  }
  std::vector<std::string> read() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> notes_;
};

// Rank 1's first callback is late: those of the others wait for it in theirs while the next call of their stream ends.
TEST_P(Callbacks, WaitForPeersOneAfterTheOther_D4) {
  std::atomic<int> ended{0};
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        Communicator second = *communicator.split(0, communicator.rank());
        HostStream stream;
        Notes notes;
        const auto meet = [&](const std::string& name, bool late) {
          return [&, name, late](const Work&) {
            if (late) until([&] { return ended.load() == kRanks - 1; });
            notes.add(name + " begins");
            second.barrier();
            notes.add(name + " ends");
          };
        };
        // In groups, so that the callbacks are there before the calls.
        Work first, next;
        for (Work* work : {&first, &next}) {
          Group group(stream);
          *work = communicator.barrier();
          work->then(work == &first ? meet("first", communicator.rank() == 1) : meet("next", false));
          group.end();
        }
        if (communicator.rank() != 1) {
          until([&] { return next.ended() != Work::Time{}; });
          EXPECT_FALSE(next.done());
          ++ended;
        }
        until([&] { return first.done() && next.done(); });
        stream.synchronize();
        EXPECT_EQ(notes.read(), (std::vector<std::string>{"first begins", "first ends", "next begins", "next ends"}));
      },
      setup());
}

// Whoever waits for a call has no callback on its stack: this one takes a lock that the waiting thread holds.
TEST_P(Callbacks, RunOnNoStackThatWaits_D4) {
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        HostStream stream;
        std::mutex held;
        bool called = false;
        Work first;
        {
          const std::lock_guard lock(held);
          Group group(stream);  // so that the callback is there before the call
          first = communicator.barrier();
          first.then([&](const Work&) {
            const std::lock_guard inner(held);
            called = true;
          });
          group.end();
          communicator.barrier(stream).wait();
          EXPECT_FALSE(called);
          EXPECT_FALSE(first.wait(milliseconds(1)));
        }
        first.wait();
        EXPECT_TRUE(called);
      },
      setup());
}

// The callback waits for something that only comes to pass when a later call of its stream has ended, and nobody waits
// for that call in a way that carries it on.
TEST_P(Callbacks, LetTheirStreamGoOnWhileTheyBlock_D4) {
  for (const bool grouped : {false, true}) {
    expect_ranks(
        kRanks,
        [&](Communicator& communicator) {
          HostStream stream;
          std::vector<int> values(50'000, 1);
          std::promise<int> promise;
          int got = 0;
          Group group(stream);  // so that the callback is there before the call
          const Work first = communicator.barrier();
          if (grouped) communicator.barrier();
          first.then([&](const Work&) { got = promise.get_future().get(); });
          group.end();
          const Work later =
              communicator.all_reduce(values.data(), values.data(), values.size(), DataType::kI32, kSum, stream);
          until([&] { return later.done(); });
          EXPECT_FALSE(first.done());
          promise.set_value(values.back());
          first.wait();
          EXPECT_EQ(got, kRanks);
        },
        setup());
  }
}

// Two callbacks, the first of which waits for a peer that does not come.
TEST_P(Callbacks, ThatWaitEndWithAnAbort_D4) {
  std::atomic<bool> over{false};
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        Communicator second = *communicator.split(0, communicator.rank());
        if (communicator.rank() == 1) {
          communicator.barrier();
          communicator.barrier();
          until([&] { return over.load(); });
          return;
        }
        HostStream stream;
        std::atomic<bool> waits{false};
        const auto meet = [&](const Work&) {
          waits = true;
          second.barrier();
        };
        Work first, next;
        for (Work* work : {&first, &next}) {
          Group group(stream);
          *work = communicator.barrier();
          work->then(meet);
          group.end();
        }
        until([&] { return waits && next.ended() != Work::Time{}; });
        if (communicator.rank() == 0) second.abort("enough");
        for (const Work& work : {first, next}) {
          try {
            work.wait();
            ADD_FAILURE() << "no error";
          } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("enough"), std::string::npos) << error.what();
          }
        }
        if (communicator.rank() == 0) over = true;
      },
      setup());
}

// In the callback, or with it: the calls behind it end first.
TEST_P(Callbacks, MayOwnTheirCommunicator_D5) {
  for (const bool inside : {false, true}) {
    std::atomic<int> dropped{0};
    const UniqueId id = UniqueId::create();
    expect_ranks(
        kRanks,
        [&](Communicator& communicator) {
          auto owned = std::make_shared<Communicator>(Communicator::create(id, communicator.rank(), kRanks));
          int first = 1, second = 1;
          if (communicator.rank() == 1) {
            owned->broadcast(&first, &first, 1, DataType::kI32, 1);
            until([&] { return dropped.load() == kRanks - 1; });
            owned->broadcast(&second, &second, 1, DataType::kI32, 1);
            return;
          }
          HostStream stream;
          std::atomic<bool> there{false};
          Group group(stream);  // so that the callback is there before the call
          const Work one = owned->broadcast(&first, &first, 1, DataType::kI32, 1);
          one.then([&, owned](const Work&) mutable {
            until([&] { return there.load(); });
            ++dropped;
            if (inside) owned.reset();
          });
          group.end();
          const Work two = owned->broadcast(&second, &second, 1, DataType::kI32, 1, stream);
          owned.reset();
          there = true;
          until([&] { return one.done() && two.done(); });
          EXPECT_FALSE(two.error());
        },
        setup());
  }
}

TEST_P(Callbacks, MayOwnTheirStream_D5) {
  for (const char* how : {"in", "with", "with the last"}) {
    expect_ranks(
        kRanks,
        [&](Communicator& communicator) {
          doing(how);
          auto stream = std::make_shared<HostStream>();
          std::atomic<bool> alone{false};
          int value = 1;
          Group group(*stream);  // so that the callback is there before the call
          const Work first = communicator.barrier();
          const auto sum = [&](Stream on) {
            return communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, on);
          };
          const auto callback = [&alone, inside = how == std::string("in"), stream](const Work&) mutable {
            until([&] { return alone.load(); });
            if (inside) stream.reset();
          };
          Work last;
          if (how == std::string("with the last")) {
            last = sum({});
            last.then(callback);
            group.end();
          } else {
            first.then(callback);
            group.end();
            last = sum(*stream);
          }
          stream.reset();
          alone = true;
          first.wait();
          last.wait();
          EXPECT_EQ(value, kRanks);
        },
        setup());
  }
}

TEST(Callback, OfNoFunctionIsRefused_B2) {
  expect_ranks(1, [](Communicator& communicator) {
    HostStream stream;
    for (const Work& work : {communicator.barrier(), communicator.barrier(stream)}) {
      try {
        work.then(nullptr);
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      }
      work.wait();
    }
  });
}

}  // namespace
}  // namespace tutti
