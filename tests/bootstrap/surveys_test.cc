#include "bootstrap/surveys.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ScopeId kScope = 7;

Activity waiting_in(const std::string& text, std::uint64_t called) {
  Activity activity;
  activity.kind = Activity::Kind::kCollective;
  activity.called = called;
  activity.since_ms = 100;
  activity.text = text;
  return activity;
}

Activity idle_after(std::uint64_t called) {
  Activity activity;
  activity.called = called;
  return activity;
}

// Ranks of a tree whose messages go through a queue and no socket.
class Tree {
 public:
  explicit Tree(const std::vector<int>& parents) : nodes_(parents.size()) {
    for (int rank = 0; rank < size(); ++rank) {
      nodes_[index(rank)].does = {waiting_in("barrier #3", 3)};
      if (parents[index(rank)] >= 0) {
        nodes_[index(rank)].neighbours.push_back(parents[index(rank)]);
        nodes_[index(parents[index(rank)])].neighbours.push_back(rank);
      }
    }
    loop_.call([this] {
      for (int rank = 0; rank < size(); ++rank) nodes_[index(rank)].surveys = make(rank);
    });
  }
  ~Tree() {
    loop_.call([this] { nodes_.clear(); });
  }

  int size() const { return static_cast<int>(nodes_.size()); }
  void does(int rank, std::vector<Activity> activities) { nodes_[index(rank)].does = std::move(activities); }
  void is_stopped(int rank) { nodes_[index(rank)].stopped = true; }
  void is_leaving(int rank) { nodes_[index(rank)].leaving = true; }
  // Also a way that closes a circle.
  void connect(int a, int b) {
    nodes_[index(a)].neighbours.push_back(b);
    nodes_[index(b)].neighbours.push_back(a);
  }
  void on_loop(const std::function<void()>& work) { loop_.call(work); }
  Surveys& at(int rank) { return *nodes_[index(rank)].surveys; }

  Findings ask(int rank) {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Findings> answer;
    loop_.post([&] {
      at(rank).ask(kScope, [&](const Findings& findings) {
        const std::lock_guard lock(mutex);
        answer = findings;
        changed.notify_all();
      });
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, seconds(30), [&] { return answer.has_value(); }));
    return answer.value_or(Findings{});
  }
  std::size_t open() {
    std::size_t open = 0;
    loop_.call([&] {
      for (const Node& node : nodes_) open += node.surveys->open();
    });
    return open;
  }

 private:
  struct Node {
    std::vector<int> neighbours;
    std::vector<Activity> does;
    bool stopped = false;
    bool leaving = false;
    std::unique_ptr<Surveys> surveys;
  };
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  std::unique_ptr<Surveys> make(int rank) {
    Surveys::Wiring wiring;
    wiring.self = rank;
    wiring.neighbours = [this, rank] { return nodes_[index(rank)].neighbours; };
    wiring.should_answer = [this](int other) { return !nodes_[index(other)].leaving; };
    wiring.send = [this, rank](int to, FrameType type, std::span<const std::byte> payload) {
      loop_.post([this, rank, to, type, bytes = std::vector(payload.begin(), payload.end())] {
        if (nodes_.empty() || nodes_[index(to)].stopped) return;
        if (type == FrameType::kAsk) at(to).take(rank, SurveyQuestion::decode(bytes, size()));
        if (type == FrameType::kAnswer) at(to).take(rank, SurveyAnswer::decode(bytes, size()));
      });
    };
    wiring.answer = [this, rank](const SurveyQuestion&, Findings& findings) {
      for (const Activity& activity : nodes_[index(rank)].does) findings.add(activity, RankSet(rank));
    };
    return std::make_unique<Surveys>(loop_, std::move(wiring));
  }

  EventLoop loop_;
  std::vector<Node> nodes_;
};

std::vector<int> line(int ranks) {
  std::vector<int> parents;
  for (int rank = 0; rank < ranks; ++rank) parents.push_back(rank - 1);
  return parents;
}

std::vector<int> star(int ranks) {
  std::vector<int> parents(static_cast<std::size_t>(ranks), 0);
  parents[0] = -1;
  return parents;
}

std::vector<int> tree(int ranks) {
  std::vector<int> parents;
  for (int rank = 0; rank < ranks; ++rank) parents.push_back(rank == 0 ? -1 : (rank - 1) / 4);
  return parents;
}

TEST(Surveys, BringEverybodysAnswerWhoeverAsks) {
  for (const auto& parents : {line(1), line(2), line(9), star(9), tree(30)}) {
    Tree ranks(parents);
    ranks.does(ranks.size() - 1, {idle_after(2)});
    for (const int asker : {0, ranks.size() / 2, ranks.size() - 1}) {
      const Findings findings = ranks.ask(asker);
      EXPECT_TRUE(findings.silent.empty());
      int answered = 0;
      for (const auto& finding : findings.findings) answered += finding.ranks.size();
      EXPECT_EQ(answered, ranks.size());
    }
    EXPECT_EQ(ranks.open(), 0u);
  }
}

TEST(Surveys, StaySmallWhenAThousandRanksDoTheSame) {
  Tree ranks(tree(1000));
  ranks.does(517, {idle_after(2)});
  const Findings findings = ranks.ask(999);
  ASSERT_EQ(findings.findings.size(), 2u);
  for (const auto& finding : findings.findings) {
    EXPECT_EQ(finding.ranks.text(), finding.activity.kind == Activity::Kind::kIdle ? "517" : "0-516,518-999");
  }
  EXPECT_LT((SurveyAnswer{kScope, 999, 1, findings}.encode().size()), 300u);
}

TEST(Surveys, NameANeighbourThatNeverAnswersAndWhoMissedIt) {
  for (const int stopped : {0, 1, 29}) {
    Tree ranks(tree(30));
    ranks.is_stopped(stopped);
    const Findings findings = ranks.ask(20);
    ASSERT_EQ(findings.silent.size(), 1u);
    EXPECT_EQ(findings.silent[0].rank, stopped);
    RankSet answered;
    for (const auto& finding : findings.findings) answered.add(finding.ranks);
    EXPECT_FALSE(answered.contains(stopped));
    EXPECT_TRUE(answered.contains(20));
    EXPECT_EQ(ranks.open(), 0u);
  }
}

TEST(Surveys, DoNotNameOneThatIsLeaving) {
  Tree ranks(star(4));
  ranks.is_stopped(3);
  ranks.is_leaving(3);
  const Findings findings = ranks.ask(1);
  EXPECT_TRUE(findings.silent.empty());
  ASSERT_EQ(findings.findings.size(), 1u);
  EXPECT_EQ(findings.findings[0].ranks.text(), "0-2");
}

TEST(Surveys, EndWhereTheTreeHasACircleForAMoment) {
  Tree ranks(tree(30));
  ranks.connect(29, 3);
  ranks.connect(7, 8);
  const Findings findings = ranks.ask(12);
  EXPECT_TRUE(findings.silent.empty());
  ASSERT_EQ(findings.findings.size(), 1u);
  EXPECT_EQ(findings.findings[0].ranks.text(), "0-29");
}

TEST(Surveys, KeepBoundedStateWhateverIsAsked) {
  Tree ranks(star(3));
  ranks.is_stopped(2);
  ranks.on_loop([&] {
    for (std::uint64_t i = 1; i <= 10'000; ++i) {
      ranks.at(0).take(1, SurveyQuestion{i, 1, i, 200});
      ranks.at(0).take(1, SurveyQuestion{kScope, 1, i, 200});
      ranks.at(0).take(1, SurveyAnswer{i, 1, i, {}});
    }
    EXPECT_LE(ranks.at(0).open(), Surveys::kMostOpen);
  });
  const auto give_up = Clock::now() + seconds(30);
  while (ranks.open() > 0 && Clock::now() < give_up) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(ranks.open(), 0u);
}

TEST(Surveys, OfOneThatWentAreForgotten) {
  Tree ranks(star(3));
  ranks.is_stopped(2);
  ranks.on_loop([&] {
    EXPECT_TRUE(ranks.at(0).ask(kScope, [](const Findings&) { FAIL() << "it was forgotten"; }));
    EXPECT_FALSE(ranks.at(0).ask(kScope, [](const Findings&) {}));
    ranks.at(0).forget(kScope);
    EXPECT_EQ(ranks.at(0).open(), 0u);
  });
}

TEST(Findings, OfManyRanksThatAllDoSomethingElseAreShortened) {
  Findings findings;
  for (int rank = 0; rank < 5000; ++rank) {
    Activity activity = waiting_in("recv u8×1 from 0 tag " + std::to_string(rank), 3);
    activity.waits_for = rank / 2;
    findings.add(activity, RankSet(rank));
  }
  EXPECT_LE(findings.findings.size(), Findings::kMost);
  EXPECT_LE((SurveyAnswer{kScope, 1, 1, findings}.encode().size()), SurveyAnswer::max_bytes(5000));
}

TEST(Findings, TellTheLongestWaitAndTheShortestRest) {
  Findings findings;
  for (const std::uint32_t ms : {300u, 700u, 500u}) {
    Activity waits = waiting_in("barrier #3", 3);
    waits.since_ms = ms;
    findings.add(waits, RankSet(static_cast<int>(ms)));
    Activity idle = idle_after(2);
    idle.since_ms = ms;
    findings.add(idle, RankSet(static_cast<int>(ms) + 1));
  }
  ASSERT_EQ(findings.findings.size(), 2u);
  EXPECT_EQ(findings.findings[0].activity.since_ms, 700u);
  EXPECT_EQ(findings.findings[1].activity.since_ms, 300u);
}

TEST(RankSet, IsToldAsRanges) {
  RankSet set;
  for (const int rank : {7, 3, 0, 1, 2, 9, 10, 3}) set.add(rank);
  EXPECT_EQ(set.text(), "0-3,7,9,10");
  EXPECT_EQ(set.size(), 7);
  EXPECT_TRUE(set.contains(2) && set.contains(10) && !set.contains(8) && !set.contains(-1) && !set.contains(11));
}

}  // namespace
}  // namespace tutti
