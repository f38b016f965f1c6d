#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "bootstrap/control_scope.h"
#include "bootstrap/control_tree.h"
#include "bootstrap/surveys.h"

namespace tutti {

// What this rank of a tree knows of the communicators on it, its own and those of others: who has left them, after
// which call, and why they failed. Passes all of it on to the neighbours, so that members hear of each other through
// ranks that are none. Belongs to the loop's thread.
//
// Add a kind of message about one communicator: a FrameType, its codec in tree_messages (of surveys: survey_messages),
// a case in receive(), and, if a new neighbour must be told, a line in introduce().
class ScopeBook {
 public:
  // `self`: this rank in the tree.
  ScopeBook(EventLoop& loop, ControlTree& tree, int self);

  // This rank takes part from now on; it is told at once what is known already. Until close(), `scope` is called back.
  void open(ControlScope& scope);
  // It said goodbye, or never had anything to say.
  void close(const ControlScope& scope);

  // A message about a communicator, from a neighbour; false: it is about something else. Throws Error(kMismatch).
  bool receive(int from, FrameType type, std::span<const std::byte> payload, int ranks);
  void learn_goodbye(const Goodbye& goodbye, int from = ControlTree::kNobody);
  // Tells a new neighbour all that is known.
  void introduce(int neighbour) const;

  // What this rank itself says.
  void poison(const ControlScope& scope, const Poison& poison);
  void compare(const ControlScope& scope, const CallDescription& mine);
  void say_goodbye(const ControlScope& scope, std::uint64_t last_call);
  // `done` is not called after close().
  void survey(const ControlScope& scope, std::function<void(const Findings&)> done);
  void report(const ControlScope& scope, const std::string& text, int blamed);
  // Asks `peer` to open the data connection that this rank cannot open to it.
  void ask_call_back(const ControlScope& scope, int peer, const std::string& trouble);

 private:
  struct Record {
    int members = 0;                    // as goodbyes say
    std::map<int, std::uint64_t> left;  // after which call, by rank
    std::optional<Poison> poison;
    std::deque<Comparison> comparisons;                 // the latest, to be known again and told to new neighbours
    std::deque<std::pair<int, std::uint64_t>> reports;  // the latest: by whom, and their numbers
    ControlScope* own = nullptr;                        // this rank's part in it
  };

  // Null: it is over, for all its members.
  Record* find(ScopeId scope);
  void learn_poison(const ScopePoison& news, int from);
  void learn_comparison(const Comparison& comparison, int from);
  void learn_call_back(const CallBack& request, int from);
  void learn_report(const SurveyReport& report, int from);
  void answer(const SurveyQuestion& question, Findings& findings);
  void check(const Record& record, const Comparison& theirs, const CallDescription& mine);

  ControlTree& tree_;
  Surveys surveys_;
  std::uint64_t reports_ = 0;  // of this rank
  std::map<ScopeId, Record> records_;
  // Those that all members have left lately: what is still said of them is old.
  std::set<ScopeId> over_;
  std::deque<ScopeId> over_in_order_;
};

}  // namespace tutti
