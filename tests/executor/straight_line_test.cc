// The straight line performs the plan's own steps, and what it cannot do it leaves to the interpreter. One thread
// drives all ranks.
#include "executor/straight_line.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "executor/guarded_call.h"
#include "support/world.h"

namespace {

// What happens when a rank of these tests gives its processor away.
std::function<void()> when_yielding;

}  // namespace

// In place of the system's.
extern "C" int sched_yield() noexcept {
  if (when_yielding) when_yielding();
  return static_cast<int>(::syscall(SYS_sched_yield));
}

namespace tutti {
namespace {

constexpr std::size_t kChunkBytes = 8192;

bool same_step(const Step& a, const Step& b) {
  return a.kind == b.kind && a.readable == b.readable && a.writable == b.writable && a.first == b.first &&
         a.last == b.last && a.source_space == b.source_space && a.destination_space == b.destination_space &&
         a.source == b.source && a.destination == b.destination && a.count == b.count && a.shape == b.shape &&
         a.part == b.part && a.from == b.from && a.to == b.to;
}

bool comes_from(const Step& step, int peer) { return step.from == kEveryone || step.from == peer; }

// All ranks' parts in one call.
struct Calls {
  Calls(World& all, const CallSetup& setup, std::uint64_t number) : world(all), sequence(number) {
    for (int r = 0; r < world.ranks(); ++r) {
      parts.push_back(std::make_unique<GuardedCall>(world, r, setup, sequence));
      parts.back()->start();
    }
  }

  Call& operator[](int rank) { return parts[static_cast<std::size_t>(rank)]->call(); }

  void finish() {
    std::vector<Call*> calls;
    for (const auto& part : parts) calls.push_back(&part->call());
    ASSERT_TRUE(world.drive(calls, sequence)) << "nobody gets on";
    EXPECT_TRUE(world.quiet()) << "a message was left over";
    for (const auto& part : parts) ASSERT_EQ(part->problem(), "");
  }

  World& world;
  std::uint64_t sequence;
  std::vector<std::unique_ptr<GuardedCall>> parts;
};

// Parameters: a collective, and its algorithm.
class StraightLines : public testing::TestWithParam<std::pair<Collective, const char*>> {
 protected:
  static const Algorithm& algorithm() { return *find_algorithm(GetParam().first, GetParam().second); }

  // Calls `test` with calls of all lengths, roots and numbers of ranks: longer than windows and rings, one after the
  // other, so that credit must flow.
  template <class Test>
  static void for_each_call(Test test) {
    for (const int ranks : {2, 3, 5, 8}) {
      World world(ranks, {});
      std::uint64_t sequence = 0;
      for (const std::size_t count : {0, 1, 2, 24, 25, 512, 513, 1024}) {
        for (const int root : is_rooted(algorithm().collective) ? std::vector{0, ranks - 1} : std::vector{0}) {
          for (const bool in_place : {false, true}) {
            const CallSetup setup{&algorithm(), root, count, in_place, kChunkBytes, 1, Buffers::kPrivate};
            SCOPED_TRACE(std::to_string(ranks) + " ranks: " + setup.text());
            test(world, setup, sequence);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
};

// Runs the call of all ranks in straight lines, in turn, and compares what they perform with the schedule.
void expect_steps_of_the_schedule(World& world, const CallSetup& setup, std::uint64_t sequence) {
  Calls calls(world, setup, sequence);
  std::vector<Plan> plans;
  std::vector<std::vector<Step>> traces(static_cast<std::size_t>(world.ranks()));
  int longest = 0;
  for (int r = 0; r < world.ranks(); ++r) {
    ASSERT_TRUE(calls[r].straight_line);
    plans.emplace_back(*setup.algorithm, world.layout(r));
    longest = std::max(longest, plans.back().steps(setup.root));
  }
  int runs = 0, shadows = 0;
  // Somebody gets a step further in each turn: all have sent before anybody's second one.
  for (int turn = 0; turn <= longest; ++turn) {
    for (int r = 0; r < world.ranks(); ++r) {
      std::vector<Step>& trace = traces[static_cast<std::size_t>(r)];
      if (turn > 1 && static_cast<int>(trace.size()) == plans[static_cast<std::size_t>(r)].steps(setup.root)) continue;
      calls[r].straight_line = false;
      ++runs;
      run_straight_line(
          calls[r], world.channel(r, 0), [&](const Step& step) { trace.push_back(step); }, [&] { ++shadows; });
    }
  }
  EXPECT_EQ(shadows, runs) << "once in each run";
  for (int r = 0; r < world.ranks(); ++r) {
    const Plan& plan = plans[static_cast<std::size_t>(r)];
    const std::vector<Step>& trace = traces[static_cast<std::size_t>(r)];
    ASSERT_EQ(static_cast<int>(trace.size()), plan.steps(setup.root));
    for (int i = 0; i < plan.steps(setup.root); ++i) {
      ASSERT_TRUE(same_step(trace[static_cast<std::size_t>(i)], plan.step(setup.root, i))) << "rank " << r;
    }
  }
  calls.finish();
}

TEST_P(StraightLines, PerformExactlyTheStepsOfTheSchedule) {
  for_each_call([](World& world, const CallSetup& setup, std::uint64_t& sequence) {
    expect_steps_of_the_schedule(world, setup, ++sequence);
  });
}

// Values for one peer go round in the few places of their connection; what several read, or what is longer, takes
// slots.
TEST(StraightLinePlaces, HoldValuesForOnePeer_C4) {
  for (const int ranks : {2, 3}) {
    for (const std::size_t bytes : {std::size_t{96}, std::size_t{100}, kPlaceBytes, kPlaceBytes + 4}) {
      World world(ranks, {});
      const CallSetup setup{
          find_algorithm(Collective::kBroadcast, "one_shot"), 0, bytes / 4, false, kChunkBytes, 1, Buffers::kPrivate};
      for (std::uint64_t sequence = 1; sequence <= 3 * kMaxWindow; ++sequence) {
        Calls(world, setup, sequence).finish();
        if (HasFatalFailure()) return;
      }
      const auto& rings = world.channel(0, 0).rings();
      const bool takes_slots = bytes > Line::kPayload && (ranks > 2 || bytes > kPlaceBytes);
      EXPECT_EQ(rings[0].head() + rings[1].head() > 0, takes_slots) << ranks << " ranks, " << bytes << " bytes";
    }
  }
}

TEST_P(StraightLines, LeaveACallAtTheStepThatNeedsALatePeer) {
  for_each_call([](World& world, const CallSetup& setup, std::uint64_t& sequence) {
    for (int late = 0; late < world.ranks(); ++late) {
      Calls calls(world, setup, ++sequence);
      for (int turn = 0; turn < 2; ++turn) {
        for (int r = 0; r < world.ranks(); ++r) {
          if (r != late) world.executor(r).progress(calls[r]);
        }
      }
      for (int r = 0; r < world.ranks(); ++r) {
        if (r == late) continue;
        const Plan plan(*setup.algorithm, world.layout(r));
        int step = 0;
        while (step < plan.steps(setup.root) && !comes_from(plan.step(setup.root, step), late)) ++step;
        const Call::Cursor& cursor = calls[r].cursors.front();
        if (step < plan.steps(setup.root)) {
          EXPECT_EQ(cursor.step, step) << "rank " << r << " waits for rank " << late;
        } else {
          EXPECT_EQ(cursor.round, 1u) << "rank " << r << " needs nothing of rank " << late;
        }
      }
      calls.finish();
      if (HasFatalFailure()) return;
    }
  });
}

TEST_P(StraightLines, FindAPeerInAnotherCall) {
  for (const std::size_t count : {2, 200}) {
    World world(3, {});
    const CallSetup setup{&algorithm(), 0, count, false, kChunkBytes, 1, Buffers::kPrivate};
    constexpr int kOdd = 0;  // the root, where there is one: it sends, or receives from everybody
    Calls calls(world, setup, 1);
    calls[kOdd].signature += 1 << 16;
    for (int turn = 0; turn < 2; ++turn) {
      for (int r = 0; r < 3; ++r) {
        if (world.executor(r).mismatch().peer < 0) world.executor(r).progress(calls[r]);
      }
    }
    for (int r = 0; r < 3; ++r) {
      const Plan plan(*setup.algorithm, world.layout(r));
      bool looks = false;
      for (int i = 0; i < plan.steps(0); ++i) {
        looks |= r == kOdd ? receives(plan.step(0, i)) : comes_from(plan.step(0, i), kOdd);
      }
      EXPECT_EQ(world.executor(r).mismatch().peer >= 0, looks) << "rank " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, StraightLines,
    testing::Values(std::pair{Collective::kAllReduce, "one_shot"}, std::pair{Collective::kAllGather, "one_shot"},
                    std::pair{Collective::kReduceScatter, "two_shot"}, std::pair{Collective::kBroadcast, "one_shot"},
                    std::pair{Collective::kReduce, "one_shot"}, std::pair{Collective::kGather, "one_shot"},
                    std::pair{Collective::kScatter, "one_shot"}, std::pair{Collective::kAllToAll, "one_shot"},
                    std::pair{Collective::kBarrier, "one_shot"}),
    [](const auto& info) { return std::string(name(info.param.first)); });

// Between two ranks nearly every algorithm goes straight, others as long as nobody passes on what it received.
TEST(StraightLine, PerformsTheStepsOfEveryAlgorithmThatItTakes) {
  int taken = 0;
  for (const int ranks : {2, 3, 4, 5, 8, 16}) {
    World world(ranks, {});
    std::uint64_t sequence = 0;
    for (const Algorithm& algorithm : algorithms()) {
      if (is_vector(algorithm.collective) || !algorithm.applies(world.layout(0))) continue;
      if (!Plan(algorithm, world.layout(0)).is_straight()) continue;
      ++taken;
      for (const std::size_t count : {1, 24, 25, 1024}) {
        for (const int root : is_rooted(algorithm.collective) ? std::vector{0, ranks - 1} : std::vector{0}) {
          for (const bool in_place : {false, true}) {
            const CallSetup setup{&algorithm, root, count, in_place, kChunkBytes, 1, Buffers::kPrivate};
            SCOPED_TRACE(std::to_string(ranks) + " ranks: " + setup.text());
            expect_steps_of_the_schedule(world, setup, ++sequence);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
  EXPECT_GT(taken, 60);
}

// What it does not know keeps to the interpreter: values in scratch or of several chunks, steps that forward.
TEST(StraightLine, IsNotForAlgorithmsThatItDoesNotKnow) {
  World world(4, {});
  for (const auto& [collective, name] :
       {std::pair{Collective::kAllReduce, "two_shot"}, std::pair{Collective::kAllReduce, "recursive_doubling"},
        std::pair{Collective::kAllGather, "recursive_doubling"}, std::pair{Collective::kBroadcast, "binomial"}}) {
    EXPECT_FALSE(Plan(*find_algorithm(collective, name), world.layout(0)).is_straight()) << name;
  }
}

TEST(StraightLine, IsForShortCallsOfOneRound) {
  World world(2, {});
  const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, "one_shot");
  for (const std::size_t count : {1023, 1024, 1025}) {
    GuardedCall call(world, 0, {&algorithm, 0, count, false, kChunkBytes, 1, Buffers::kPrivate}, 1);
    call.start();
    EXPECT_EQ(call.call().straight_line, count * sizeof(float) <= kLongestStraightLine);
  }
  GuardedCall rounds(world, 0, {&algorithm, 0, 1024, false, kChunkBytes / 4, 1, Buffers::kPrivate}, 1);
  rounds.start();
  EXPECT_FALSE(rounds.call().straight_line);
}

// Whatever is short can be made again as it is, in a straight line or not, and with buffers anywhere.
TEST(StraightLine, IsNotNeededForBeingRepeated) {
  World world(2, {});
  const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, "two_shot");
  constexpr std::size_t kLongest = 128 << 10;
  for (const std::size_t bytes : {kLongest / 4, kLongest, kLongest + sizeof(float)}) {
    GuardedCall call(world, 0, {&algorithm, 0, bytes / sizeof(float), false, kChunkBytes, 1, Buffers::kShared}, 1);
    call.start();
    EXPECT_FALSE(call.call().straight_line);
    EXPECT_EQ(call.call().repeatable, bytes <= kLongest);
  }
}

constexpr std::uint64_t kElsewhere = 1 << 20;  // a processor that this machine does not have

// Rank 0 of three goes in a straight line, with peers where they are said to run last; 0: nobody knows.
class StraightLineOfThree : public testing::Test {
 protected:
  StraightLineOfThree() : calls_(world_, setup_, 1) {
    for (const int peer : {1, 2}) {
      Word& processor = processors_[static_cast<std::size_t>(peer)];
      note(processor, kElsewhere);
      world_.channel(0, 0).endpoint(peer).processor_in = &processor;
    }
  }
  ~StraightLineOfThree() override { when_yielding = nullptr; }

  void put(int peer, std::uint64_t processor) { note(processors_[static_cast<std::size_t>(peer)], processor); }
  void run(int peer) { world_.executor(peer).progress(calls_[peer]); }
  // Whether it got to the end.
  bool go() {
    Neighbours neighbours(&processors_[0]);
    neighbours.tell();
    calls_[0].straight_line = false;
    return run_straight_line(
        calls_[0], world_.channel(0, 0), [](const Step&) {}, [] {}, neighbours);
  }

  World world_{3, {}};
  const CallSetup setup_{
      find_algorithm(Collective::kAllReduce, "one_shot"), 0, 2, false, kChunkBytes, 1, Buffers::kPrivate};
  Calls calls_;
  std::array<Word, 3> processors_{};
};

TEST_F(StraightLineOfThree, GivesTheProcessorToANeighbourAndGoesOnWhenItHasCome) {
  put(1, 0);
  run(2);
  int yields = 0;
  when_yielding = [&] {
    if (++yields == 2) run(1);
  };
  EXPECT_TRUE(go());
  EXPECT_EQ(yields, 2);
  calls_.finish();
}

TEST_F(StraightLineOfThree, KeepsTheProcessorWhileItWaitsForRanksElsewhere) {
  put(1, 0);
  run(1);
  int yields = 0;
  when_yielding = [&] { ++yields; };
  EXPECT_FALSE(go()) << "nobody runs rank 2";
  EXPECT_EQ(yields, 0);
  calls_.finish();
}

TEST_F(StraightLineOfThree, LeavesTheCallToTheInterpreterWhenANeighbourDoesNotCome) {
  put(1, 0);
  run(2);
  int yields = 0;
  when_yielding = [&] { ++yields; };
  EXPECT_FALSE(go());
  EXPECT_EQ(yields, kStraightLineYields);
  calls_.finish();
}

TEST(Neighbours, AreAllRanksOfTheHostThatMayRunHere) {
  Word own{0}, processor{0};
  const Neighbours neighbours(&own);
  neighbours.tell();
  Endpoint peer;
  peer.processor_in = &processor;
  EXPECT_TRUE(neighbours.may_include(peer)) << "it has not said where it runs";
  note(processor, peek(own));
  EXPECT_TRUE(neighbours.may_include(peer));
  note(processor, kElsewhere);
  EXPECT_FALSE(neighbours.may_include(peer));
  EXPECT_FALSE(Neighbours(nullptr).share());
}

}  // namespace
}  // namespace tutti
