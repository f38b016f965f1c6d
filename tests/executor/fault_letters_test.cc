// Point-to-point beside collectives over ways that are slow, late, cut short or broken; see faults_test.cc.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "executor/series.h"

namespace tutti {
namespace {

using Break = FaultPlan::Break;

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

class FaultyMail : public testing::TestWithParam<Size> {
 protected:
  const Fabric& fabric() const { return *GetParam().fabric; }
  int ranks() const { return GetParam().ranks; }
  std::mt19937_64 random_{given_seed()};
};

// Sends and receives beside collectives.
TEST_P(FaultyMail, BringsEveryMessageRightOrNamesTheBreak) {
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

INSTANTIATE_TEST_SUITE_P(Fabrics, FaultyMail, testing::ValuesIn(kWorlds),
                         [](const auto& info) { return info.param.fabric->name + std::to_string(info.param.ranks); });

}  // namespace
}  // namespace tutti
