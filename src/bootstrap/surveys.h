#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "bootstrap/event_loop.h"
#include "bootstrap/frame.h"
#include "bootstrap/survey_messages.h"

namespace tutti {

// The questions what ranks do that are under way at one rank of a tree: its own, and those of others, which it passes
// on to its other neighbours and answers when they have, or when they have taken too long. Bounded memory: whatever is
// open ends at a deadline, and there are never more than a few. Belongs to the loop's thread; knows no sockets.
class Surveys {
 public:
  struct Wiring {
    int self = 0;  // rank of the tree
    std::function<std::vector<int>()> neighbours;
    std::function<bool(int)> should_answer;  // still a neighbour, and not about to go
    std::function<void(int to, FrameType, std::span<const std::byte>)> send;
    // What this rank does, in the communicator, if it is a member; it learns who asked. Must not block.
    std::function<void(const SurveyQuestion&, Findings&)> answer;
  };
  using Done = std::function<void(const Findings&)>;

  // How long the asker waits; every rank on the way waits a tenth less than who asked it.
  static constexpr std::chrono::milliseconds kPatience{1000};
  static constexpr std::size_t kMostOpen = 64;

  Surveys(EventLoop& loop, Wiring wiring) : loop_(loop), wiring_(std::move(wiring)) {}

  // This rank's own question; false: one about this communicator is under way. `done` is called later, or at once when
  // there is nobody to ask.
  bool ask(ScopeId scope, Done done);
  // This rank is no member any more: what it has asked is of no interest.
  void forget(ScopeId scope);

  void take(int from, const SurveyQuestion& question);
  void take(int from, const SurveyAnswer& answer);

  std::size_t open() const { return open_.size(); }

 private:
  using Name = std::tuple<ScopeId, int, std::uint64_t>;  // scope, asker, number
  struct Open {
    int from = kSelf;
    std::set<int> pending;
    Findings findings;
    Timer deadline;
    Done done;
  };
  static constexpr int kSelf = -1;

  void open(const SurveyQuestion& question, int from, Done done);
  void finish(const Name& name);
  bool is_open(ScopeId scope, int asker) const;

  EventLoop& loop_;
  const Wiring wiring_;
  std::map<Name, Open> open_;
  std::deque<Name> over_;  // the latest: the same question may come on another way
  std::uint64_t asked_ = 0;
};

}  // namespace tutti
