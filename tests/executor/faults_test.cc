// Collectives and point-to-point over ways that are slow, late, cut short or broken. What must hold:
//   - a call that says it is done has the right result, whatever becomes of others;
//   - a call that fails does so because something broke, and the reason names a rank at the break;
//   - a call waits for ever only where a connection went silent and nobody was told;
//   - nothing is written around buffers, nor into them once their call has ended.
// TUTTI_TEST_SEED repeats a run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "executor/guarded_call.h"
#include "support/world.h"

namespace tutti {
namespace {

using Break = FaultPlan::Break;
using Bug = FaultPlan::Bug;

std::uint64_t given_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("TUTTI_TEST_SEED");
    const std::uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    fmt::print("TUTTI_TEST_SEED={}\n", value);
    return value;
  }();
  return seed;
}

bool reduced() { return std::getenv("TUTTI_TEST_REDUCED") != nullptr; }

struct Fabric {
  const char* name;
  int ranks_per_host;
};
constexpr Fabric kFabrics[] = {{"Apart", 1}, {"Pairs", 2}, {"Threes", 3}};

std::vector<int> hosts(const Fabric& fabric, int ranks) {
  std::vector<int> host_of;
  for (int r = 0; r < ranks; ++r) host_of.push_back(r / fabric.ranks_per_host);
  return host_of;
}

WorldOptions options_of(const Fabric& fabric, int ranks, std::uint32_t window = 4) {
  WorldOptions options;
  options.host_of = hosts(fabric, ranks);
  options.channels = 3;
  options.window = window;
  options.large_ring_bytes = 768 * 1024;
  options.faults = true;
  return options;
}

// Why a task of this rank must not have ended so; "" when it may.
std::string wrong_ending(World& world, int rank, Ending ending) {
  const FaultPlan& plan = world.faults().plan();
  const bool broken = world.faults().broken();
  const Health& health = world.health(rank);
  switch (ending) {
    case Ending::kFailed:
      if (!health.failed()) return fmt::format("rank {} failed for no reason, perhaps a mismatch", rank);
      if (!broken) return fmt::format("rank {} failed though nothing broke: {}", rank, health.reason().what());
      if (health.reason().peer() == plan.victim || health.reason().peer() == plan.other) return "";
      return fmt::format("rank {} blames rank {}", rank, health.reason().peer());
    case Ending::kStuck:
      return broken && plan.breaks == Break::kSilent ? "" : fmt::format("rank {} waits for ever", rank);
    case Ending::kDone:
    case Ending::kKilled:
      break;
  }
  return "";
}

// A few calls, one after the other, on all ranks: a rank goes on to its next call as soon as one has ended.
class Series {
 public:
  Series(World& world, std::vector<CallSetup> setups, std::uint64_t first_sequence = 1)
      : world_(world), setups_(std::move(setups)), parts_(static_cast<std::size_t>(world.ranks())) {
    for (int r = 0; r < world.ranks(); ++r) {
      std::uint64_t sequence = first_sequence;
      for (const CallSetup& setup : setups_) {
        parts_[static_cast<std::size_t>(r)].push_back(std::make_unique<GuardedCall>(world, r, setup, sequence++));
      }
    }
    for (int r = 0; r < world.ranks(); ++r) tasks_.push_back(task(r));
  }

  void run(std::uint64_t seed, bool done_ranks_leave = false) { end(world_.run(tasks_, seed, done_ranks_leave)); }
  // Or by somebody else: one task a rank.
  const std::vector<Task>& tasks() const { return tasks_; }
  void end(std::vector<Ending> endings) {
    endings_ = std::move(endings);
    // What is still on its way comes, or not.
    for (int turn = 0; turn < 1000; ++turn) world_.poll(turn % world_.ranks());
  }

  // What must hold whatever broke; "" when it does.
  std::string problem() {
    if (!problem_.empty()) return problem_;
    for (int r = 0; r < world_.ranks(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      if (std::string wrong = wrong_ending(world_, r, endings_[at]); !wrong.empty()) return wrong;
      for (std::size_t i = 0; i < ended_[at] && !world_.faults().killed(r); ++i) {
        if (std::string wrong = parts_[at][i]->problem_since(); !wrong.empty()) return wrong;
      }
    }
    return "";
  }

 private:
  Task task(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    ended_.push_back(0);
    return {rank,
            [this, rank, at, started = std::size_t{0}]() mutable -> Task::Turn {
              GuardedCall& part = *parts_[at][ended_[at]];
              if (started == ended_[at]) {
                part.start();
                ++started;
              }
              const Progress progress = world_.executor(rank).progress(part.call());
              const bool moved = world_.executor(rank).advanced();
              if (progress != Progress::kDone) return {progress, moved};
              if (problem_.empty()) problem_ = part.problem();
              part.reuse_buffers();
              return {++ended_[at] == parts_[at].size() ? Progress::kDone : Progress::kAgain, true};
            },
            [this, rank, at] {
              world_.executor(rank).withdraw();
              parts_[at][ended_[at]++]->reuse_buffers();
            }};
  }

  World& world_;
  std::vector<CallSetup> setups_;
  std::vector<std::vector<std::unique_ptr<GuardedCall>>> parts_;  // [rank][call]
  std::vector<std::size_t> ended_;                                // by rank
  std::vector<Task> tasks_;
  std::vector<Ending> endings_;
  std::string problem_;
};

// Messages between random pairs of ranks, issued all at once in a random order.
class Letters {
 public:
  Letters(World& world, int letters, std::mt19937_64& random) : world_(world) {
    const auto ranks = static_cast<std::uint64_t>(world.ranks());
    for (int i = 0; i < letters; ++i) {
      const int from = static_cast<int>(random() % ranks);
      const int to = static_cast<int>(random() % ranks);
      // Tag 0 is received from anybody, and has one length.
      const int tag = static_cast<int>(random() % 3);
      const std::size_t lengths[] = {0, 1, 24, 25, 2000, 60'000};
      const std::size_t length = tag == 0 ? 700 : lengths[random() % std::size(lengths)];
      sends_.push_back(make(from, to, tag, length));
      receives_.push_back(make(to, tag == 0 ? kAnySource : from, tag, length));
      const float first = static_cast<float>(i * 1000);
      for (std::size_t at = 0; at < length; ++at)
        sends_.back()->buffer.data()[at] = first + static_cast<float>(at % 997);
    }
    for (auto& letter : sends_) issued_.push_back(letter.get());
    for (auto& letter : receives_) issued_.push_back(letter.get());
    std::shuffle(issued_.begin(), issued_.end(), random);
    // Of one pair and tag, receives come in the order of their sends, whoever is issued first.
    for (int sending = 0; sending < 2; ++sending) {
      std::vector<std::size_t> places;
      for (std::size_t at = 0; at < issued_.size(); ++at) {
        if (is_send(*issued_[at]) == (sending == 1)) places.push_back(at);
      }
      std::size_t next = 0;
      for (auto& letter : sending == 1 ? sends_ : receives_) issued_[places[next++]] = letter.get();
    }
    for (Letter* letter : issued_) tasks_.push_back(task(*letter));
  }
  ~Letters() {
    for (Letter* letter : issued_) world_.point_to_point(letter->rank).withdraw(letter->transfer);
  }
  Letters(const Letters&) = delete;
  Letters& operator=(const Letters&) = delete;

  // Issues them: tasks() carry them on. REQUIRES: nothing has broken yet.
  void issue() {
    for (const Task& task : tasks_) task.turn();
  }
  const std::vector<Task>& tasks() const { return tasks_; }

  // endings: of tasks().
  std::string problem(std::span<const Ending> endings) {
    if (!problem_.empty()) return problem_;
    for (std::size_t i = 0; i < endings.size(); ++i) {
      Letter& letter = *issued_[i];
      if (std::string wrong = wrong_ending(world_, letter.rank, endings[i]); !wrong.empty()) return wrong;
      if (!letter.buffer.guards_untouched()) return fmt::format("rank {}: written around a message", letter.rank);
      if (endings[i] == Ending::kDone && !letter.buffer.scribble_untouched()) {
        return fmt::format("rank {}: written to a message that is done", letter.rank);
      }
    }
    return "";
  }

 private:
  struct Letter {
    Letter(int owner, std::size_t length) : rank(owner), buffer(length, Buffers::kPrivate) {}
    const int rank;
    GuardedBuffer buffer;
    Transfer transfer;
    bool done = false;
  };

  static std::unique_ptr<Letter> make(int rank, int peer, int tag, std::size_t length) {
    auto letter = std::make_unique<Letter>(rank, length);
    letter->transfer.peer = peer;
    letter->transfer.tag = tag;
    letter->transfer.type = DataType::kF32;
    letter->transfer.count = length;
    letter->transfer.input = reinterpret_cast<const std::byte*>(letter->buffer.data());
    letter->transfer.output = reinterpret_cast<std::byte*>(letter->buffer.data());
    return letter;
  }
  bool is_send(const Letter& letter) const {
    return std::any_of(sends_.begin(), sends_.end(), [&letter](const auto& send) { return send.get() == &letter; });
  }

  Task task(Letter& letter) {
    const bool sending = is_send(letter);
    return {letter.rank,
            [this, &letter, sending]() -> Task::Turn {
              if (letter.done) return {Progress::kDone, true};
              const Transfer& transfer = letter.transfer;
              const auto stage = transfer.stage;
              const std::size_t moved = transfer.moved;
              PointToPoint& mail = world_.point_to_point(letter.rank);
              const Progress progress =
                  sending ? mail.progress_send(letter.transfer) : mail.progress_receive(letter.transfer);
              if (progress == Progress::kDone) {
                if (!sending) check(letter);
                letter.buffer.scribble();
                letter.done = true;
              }
              return {progress, stage != transfer.stage || moved != transfer.moved};
            },
            [this, &letter] { world_.point_to_point(letter.rank).withdraw(letter.transfer); }};
  }

  // The message of a receive is one that was sent here with this tag, and of those of its sender the first that was
  // not received yet.
  void check(Letter& letter) {
    const auto mine = [&](const Letter& sent) {
      return sent.rank == letter.transfer.peer && sent.transfer.peer == letter.rank &&
             sent.transfer.tag == letter.transfer.tag;
    };
    std::size_t index = sends_.size();
    if (letter.transfer.tag != 0) {
      // The same place among receives as among sends.
      for (std::size_t i = 0; i < receives_.size(); ++i) {
        if (receives_[i].get() == &letter) index = i;
      }
    } else {
      for (std::size_t i = 0; i < sends_.size() && index == sends_.size(); ++i) {
        if (mine(*sends_[i]) && received_.count(i) == 0 && letter.transfer.number == number_of(i)) index = i;
      }
    }
    if (index == sends_.size() || !mine(*sends_[index]) || !received_.insert(index).second) {
      problem_ = fmt::format("rank {} received what nobody sent", letter.rank);
      return;
    }
    const float first = static_cast<float>(index * 1000);
    for (std::size_t at = 0; at < letter.buffer.size(); ++at) {
      if (letter.buffer.data()[at] == first + static_cast<float>(at % 997)) continue;
      problem_ =
          fmt::format("rank {} element {} of message {} is {}", letter.rank, at, index, letter.buffer.data()[at]);
      return;
    }
  }
  // Of the announcement of a send: those of one pair are numbered in the order of issue.
  std::uint64_t number_of(std::size_t index) const { return sends_[index]->transfer.number; }

  World& world_;
  std::vector<std::unique_ptr<Letter>> sends_;
  std::vector<std::unique_ptr<Letter>> receives_;  // receives_[i] is for sends_[i], but for its sender if it takes any
  std::vector<Letter*> issued_;
  std::vector<Task> tasks_;
  std::set<std::size_t> received_;  // sends
  std::string problem_;
};

// Lets all credit find its way. REQUIRES: nothing has broken.
bool settle(World& world) {
  for (int turn = 0; turn < 100'000 && !world.faults().settled(); ++turn) {
    world.poll(turn % world.ranks());
    world.flush(turn % world.ranks());
  }
  return world.faults().settled();
}

// Calls that fit the rings of options_of(): inline, in slots, in several rounds, read where they lie.
std::vector<CallSetup> setups_of(const Algorithm& algorithm, const World& world, std::mt19937_64& random) {
  const Chunking chunking = algorithm.chunking(world.layout(0));
  const auto chunks = static_cast<std::size_t>(chunking.chunks);
  struct Bytes {
    std::size_t chunk_bytes;
    std::size_t count;
  };
  std::vector<Bytes> sizes = {
      {512, 1}, {512, 7}, {512, 129}, {512, 3 * chunks * 128 - 1}, {4096, 2 * chunks * 1024 + 5}};
  const std::size_t longest = 768 * 1024 / 2 / static_cast<std::size_t>(chunking.slot_chunks) / 64 * 64;
  if (longest >= 36 * 1024) sizes.push_back({36 * 1024, chunks * 9 * 1024 + 3});
  std::vector<CallSetup> setups;
  for (const Bytes& size : sizes) {
    for (const bool in_place : {false, true}) {
      CallSetup setup;
      setup.algorithm = &algorithm;
      setup.root =
          is_rooted(algorithm.collective) ? static_cast<int>(random() % static_cast<unsigned>(world.ranks())) : 0;
      setup.count = size.count;
      setup.in_place = in_place;
      setup.chunk_bytes = size.chunk_bytes;
      setup.channels = 1 + static_cast<int>(random() % 3);
      setup.buffers = random() % 2 == 0 ? Buffers::kPrivate : Buffers::kShared;
      setups.push_back(setup);
    }
  }
  return setups;
}

std::size_t bytes_of(const CallSetup& setup) { return setup.count * sizeof(float); }

struct Size {
  const Fabric* fabric;
  int ranks;
};
void PrintTo(const Size& size, std::ostream* out) { *out << size.fabric->name << size.ranks; }
constexpr Size kWorlds[] = {{&kFabrics[0], 2}, {&kFabrics[0], 3}, {&kFabrics[0], 4}, {&kFabrics[0], 5},
                            {&kFabrics[0], 6}, {&kFabrics[0], 7}, {&kFabrics[0], 8}, {&kFabrics[1], 3},
                            {&kFabrics[1], 4}, {&kFabrics[1], 6}, {&kFabrics[1], 8}, {&kFabrics[2], 4},
                            {&kFabrics[2], 5}, {&kFabrics[2], 6}, {&kFabrics[2], 7}};

class Faults : public testing::TestWithParam<Size> {
 protected:
  const Fabric& fabric() const { return *GetParam().fabric; }
  int ranks() const { return GetParam().ranks; }
  std::mt19937_64 random_{given_seed()};
};

TEST_P(Faults, LeaveEveryResultRightWhenMessagesAreOnlyLateOrCutShort) {
  const auto window = static_cast<std::uint32_t>(2 << random_() % 3);
  World world(ranks(), options_of(fabric(), ranks(), window));
  std::uint64_t sequence = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.applies(world.layout(0))) continue;
    for (const CallSetup& setup : setups_of(algorithm, world, random_)) {
      if (random_() % (reduced() ? 10 : ranks() > 5 ? 2 : 1) != 0) continue;
      const FaultPlan plan = FaultPlan::random(random_(), bytes_of(setup));
      SCOPED_TRACE(fmt::format("{} window {}\n{}", setup.text(), window, plan.text()));
      world.faults().set_plan(plan);
      Series series(world, {setup}, ++sequence);
      series.run(random_());
      ASSERT_EQ(series.problem(), "");
      ASSERT_TRUE(world.quiet()) << "a message was left over";
    }
  }
  ASSERT_TRUE(settle(world)) << "credit was lost";
}

TEST_P(Faults, LeaveDifferentCallsOneAfterTheOtherRight) {
  const auto window = static_cast<std::uint32_t>(2 << random_() % 3);
  World world(ranks(), options_of(fabric(), ranks(), window));
  std::vector<CallSetup> all;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.applies(world.layout(0))) continue;
    for (CallSetup& setup : setups_of(algorithm, world, random_)) all.push_back(setup);
  }
  std::uint64_t sequence = 1;
  for (int trial = 0; trial < (reduced() ? 2 : 20); ++trial) {
    std::vector<CallSetup> setups;
    std::string text;
    std::size_t bytes = 0;
    for (int i = 0; i < 12; ++i) {
      setups.push_back(all[random_() % all.size()]);
      text += setups.back().text() + '\n';
      bytes += bytes_of(setups.back());
    }
    const FaultPlan plan = FaultPlan::random(random_(), bytes);
    SCOPED_TRACE(fmt::format("{}window {}\n{}", text, window, plan.text()));
    world.faults().set_plan(plan);
    Series series(world, setups, sequence);
    sequence += setups.size();
    series.run(random_());
    ASSERT_EQ(series.problem(), "");
    ASSERT_TRUE(world.quiet()) << "a message was left over";
    ASSERT_TRUE(settle(world)) << "credit was lost";
  }
}

// A rank that has its result may compute for long, or wait in another communicator: the others do not need it.
TEST_P(Faults, DoNotMakeACallWaitForARankThatHasItsResult) {
  for (const Algorithm& algorithm : algorithms()) {
    if (reduced() && random_() % 4 != 0) continue;
    WorldOptions options = options_of(fabric(), ranks(), static_cast<std::uint32_t>(2 << random_() % 3));
    options.large_ring_bytes = 64 * 1024;
    World world(ranks(), options);
    if (!algorithm.applies(world.layout(0))) continue;
    const Chunking chunking = algorithm.chunking(world.layout(0));
    CallSetup setup;
    setup.algorithm = &algorithm;
    setup.root = is_rooted(algorithm.collective) ? ranks() - 1 : 0;
    setup.chunk_bytes = options.large_ring_bytes / 2 / static_cast<std::size_t>(chunking.slot_chunks) / 64 * 64;
    setup.count = 5 * static_cast<std::size_t>(chunking.chunks) * setup.chunk_bytes / sizeof(float) - 7;
    setup.channels = 1 + static_cast<int>(random_() % 3);
    const FaultPlan plan = FaultPlan::random(random_(), bytes_of(setup));
    SCOPED_TRACE(fmt::format("{}\n{}", setup.text(), plan.text()));
    world.faults().set_plan(plan);
    for (std::uint64_t sequence = 1; sequence <= 2; ++sequence) {
      Series series(world, {setup}, sequence);
      series.run(random_(), true);
      EXPECT_EQ(series.problem(), "");
    }
  }
}

// Whatever breaks, at any moment.
TEST_P(Faults, ThatBreakSomethingNeverMakeAWrongResult) {
  const Placement placement(hosts(fabric(), ranks()));
  int broken = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.applies(placement.layout(0)) || (reduced() && random_() % 2 != 0)) continue;
    for (int trial = 0; trial < (reduced() ? 1 : 4); ++trial) {
      World world(ranks(), options_of(fabric(), ranks(), static_cast<std::uint32_t>(2 << random_() % 3)));
      const std::vector<CallSetup> setups = setups_of(algorithm, world, random_);
      const CallSetup& setup = setups[random_() % setups.size()];
      FaultPlan plan = FaultPlan::random(random_(), bytes_of(setup));
      plan.breaks = random_() % 4 == 0 ? Break::kSilent : random_() % 3 == 0 ? Break::kLost : Break::kKilled;
      plan.victim = static_cast<int>(random_() % static_cast<unsigned>(ranks()));
      plan.other = plan.victim;
      if (plan.breaks != Break::kKilled) {
        do plan.other = static_cast<int>(random_() % static_cast<unsigned>(ranks()));
        while (plan.other == plan.victim);
      }
      plan.breaks_at = random_() % (plan.breaks == Break::kKilled ? 60u : 8u);
      SCOPED_TRACE(fmt::format("{}\n{}", setup.text(), plan.text()));
      world.faults().set_plan(plan);
      Series series(world, {setup, setup, setup});
      series.run(random_());
      ASSERT_EQ(series.problem(), "");
      broken += world.faults().broken() ? 1 : 0;
    }
  }
  EXPECT_GT(broken, 0);
}

// A call that fails gives its buffers back at once. Whoever reads a value there has not got it.
TEST(AReaderInPlace, DoesNotBelieveABufferWhoseCallHasFailed) {
  WorldOptions options;
  options.faults = true;
  World world(2, options);
  CallSetup setup;
  setup.algorithm = find_algorithm(Collective::kBroadcast, "binomial");
  setup.count = 1000;
  setup.chunk_bytes = 4096;
  setup.buffers = Buffers::kShared;
  Series(world, {setup, setup, setup}).run(1);  // they learn of each other's memory
  GuardedCall writer(world, 0, setup, 4);
  GuardedCall reader(world, 1, setup, 4);
  writer.start();
  reader.start();
  ASSERT_EQ(world.executor(0).progress(writer.call()), Progress::kAgain) << "the value was not left to be read";
  world.health(0).fail(ErrorCode::kRemote, "somebody died", 1);
  ASSERT_EQ(world.executor(0).progress(writer.call()), Progress::kFailed);
  world.executor(0).withdraw();
  writer.reuse_buffers();
  for (int turn = 0; turn < 100; ++turn) {
    ASSERT_EQ(world.executor(1).progress(reader.call()), Progress::kAgain) << reader.problem();
  }
  world.health(1).fail(ErrorCode::kRemote, "somebody died", 0);
  EXPECT_EQ(world.executor(1).progress(reader.call()), Progress::kFailed);
}

// Sends and receives beside collectives.
TEST_P(Faults, LeaveMessagesBetweenTwoRanksRight) {
  for (int trial = 0; trial < (reduced() ? 4 : 24); ++trial) {
    WorldOptions options = options_of(fabric(), ranks(), static_cast<std::uint32_t>(2 << random_() % 3));
    options.piece_bytes = random_() % 2 == 0 ? 4096 : 64 * 1024;
    World world(ranks(), options);
    FaultPlan plan = FaultPlan::random(random_(), 1'000'000);
    const bool breaks = trial % 2 == 1;
    if (breaks) {
      plan.breaks = random_() % 3 == 0 ? Break::kSilent : Break::kKilled;
      plan.victim = static_cast<int>(random_() % static_cast<unsigned>(ranks()));
      plan.other = plan.breaks == Break::kKilled ? plan.victim : (plan.victim + 1) % ranks();
      plan.breaks_at = random_() % 300;
    }
    CallSetup calls;
    calls.algorithm = find_algorithm(Collective::kAllReduce, "ring");
    calls.count = 3000;
    calls.chunk_bytes = 4096;
    SCOPED_TRACE(fmt::format("window {} pieces {}\n{}", options.window, options.piece_bytes, plan.text()));
    Letters letters(world, 2 + static_cast<int>(random_() % 40), random_);
    letters.issue();
    world.faults().set_plan(plan);
    Series series(world, {calls, calls, calls});
    std::vector<Task> tasks = letters.tasks();
    const std::size_t count = tasks.size();
    tasks.insert(tasks.end(), series.tasks().begin(), series.tasks().end());
    const std::vector<Ending> endings = world.run(tasks, random_());
    series.end({endings.begin() + static_cast<std::ptrdiff_t>(count), endings.end()});
    ASSERT_EQ(letters.problem(std::span(endings).first(count)), "");
    ASSERT_EQ(series.problem(), "");
    if (!world.faults().broken()) {
      ASSERT_TRUE(settle(world)) << "credit was lost";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Faults, testing::ValuesIn(kWorlds),
                         [](const auto& info) { return info.param.fabric->name + std::to_string(info.param.ranks); });

// A call fails where a transport makes an error; each of them is planted and must be found.
struct Planted {
  const char* name;
  Bug bug;
  Collective collective = Collective::kAllReduce;
  const char* algorithm = "ring";
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class PlantedError : public testing::TestWithParam<Planted> {};

TEST_P(PlantedError, OfATransportIsFound) {
  std::mt19937_64 random(given_seed());
  const Algorithm* algorithm = find_algorithm(GetParam().collective, GetParam().algorithm);
  int struck = 0;
  int found = 0;
  for (int trial = 0; trial < 200 && (struck < 10 || found < struck); ++trial) {
    World world(3, options_of(kFabrics[0], 3, 2));
    FaultPlan plan = FaultPlan::random(random(), 20'000);
    plan.bug = GetParam().bug;
    plan.bug_at = 1 + random() % 2;
    plan.ignored_post_percent = 0;
    if (plan.bug == Bug::kWritesAfterWithdraw || plan.bug == Bug::kForgetsToFail) {
      plan.breaks = Break::kKilled;
      plan.breaks_at = random() % 60;
    }
    if (plan.bug == Bug::kWrittenEarly) plan.most_bytes = 500;
    world.faults().set_plan(plan);
    CallSetup setup;
    setup.algorithm = algorithm;
    setup.count = 3 * 2 * 12 * 1024;
    setup.chunk_bytes = 40 * 1024;
    setup.channels = 2;
    Series series(world, {setup, setup});
    series.run(random());
    std::string problem = series.problem();
    if (problem.empty() && !world.faults().broken() && !settle(world)) problem = "credit was lost";
    if (!world.faults().bug_struck()) {
      ASSERT_EQ(problem, "") << plan.text();
      continue;
    }
    ++struck;
    if (!problem.empty()) ++found;
    if (found == 1 && !problem.empty()) fmt::print("found: {}\n", problem);
  }
  EXPECT_GT(struck, 0) << "it never showed";
  // Some leave nothing to see: whoever was not told may have had its result already.
  EXPECT_GT(found, 0) << "it showed " << struck << " times";
}

INSTANTIATE_TEST_SUITE_P(
    Errors, PlantedError,
    testing::Values(Planted{"SwapsMessages", Bug::kSwapsMessages}, Planted{"LosesCredit", Bug::kLosesCredit},
                    Planted{"PublishesEarly", Bug::kPublishesEarly},
                    Planted{"WrittenEarly", Bug::kWrittenEarly, Collective::kBroadcast, "chain"},
                    Planted{"WritesAfterWithdraw", Bug::kWritesAfterWithdraw, Collective::kAllGather, "ring"},
                    Planted{"ForgetsToFail", Bug::kForgetsToFail}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tutti
