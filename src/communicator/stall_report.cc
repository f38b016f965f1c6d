#include "communicator/stall_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/arithmetic.h"

namespace tutti {
namespace {

using Kind = Activity::Kind;
using Finding = Findings::Finding;

constexpr std::size_t kMostBytes = 600;
constexpr int kMostNamed = 3;  // with host and process

std::string time_text(std::uint32_t ms) {
  const DefaultArithmetic arithmetic;
  return ms < 9'950 ? fmt::format("{:.1f} s", ms / 1000.0) : fmt::format("{} s", (ms + 500) / 1000);
}

// The graph of who waits for whom, as far as it can be reached from one rank.
class Search {
 public:
  explicit Search(const StallPicture& picture)
      : picture_(picture), ranks_(static_cast<std::size_t>(picture.ranks)), visited_(ranks_, false), of_(ranks_) {
    for (const Finding& finding : picture.survey.findings.findings) {
      for (const int rank : finding.ranks.ranks()) of_[static_cast<std::size_t>(rank)].push_back(&finding.activity);
    }
    for (int rank = 0; rank < picture.ranks; ++rank) {
      if (!answers(rank).empty()) by_call_.emplace_back(called(rank), rank);
    }
    std::ranges::sort(by_call_);
    for (const Survey::Silent& silent : picture.survey.silent) {
      if (silent.rank >= 0) mute_.push_back(silent.rank);
    }
    const std::vector<int> unknown = picture.survey.unknown.ranks();
    mute_.insert(mute_.end(), unknown.begin(), unknown.end());
    visit(picture.rank);
    while (!queue_.empty()) {
      const int rank = queue_.back();
      queue_.pop_back();
      expand(rank);
    }
  }

  const std::vector<const Activity*>& answers(int rank) const { return of_[static_cast<std::size_t>(rank)]; }
  bool visited(int rank) const { return visited_[static_cast<std::size_t>(rank)]; }
  // Whoever waits for nobody; in no order.
  const RankSet& ends() const { return ends_; }

  // The furthest behind of those visited, if they are not all equally far.
  RankSet furthest_behind() const {
    RankSet behind;
    std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t highest = 0;
    for (const auto& [call, rank] : by_call_) {
      if (!visited(rank)) continue;
      lowest = std::min(lowest, call);
      highest = std::max(highest, call);
      if (call == lowest) behind.add(rank);
    }
    return lowest < highest ? behind : RankSet();
  }

 private:
  std::uint64_t called(int rank) const {
    std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
    for (const Activity* activity : answers(rank)) lowest = std::min(lowest, activity->called);
    return lowest;
  }

  void visit(int rank) {
    if (rank < 0 || rank >= picture_.ranks || visited(rank)) return;
    visited_[static_cast<std::size_t>(rank)] = true;
    queue_.push_back(rank);
  }

  // Everybody who has not come to this call. False: all have.
  bool visit_behind(std::uint64_t call) {
    for (; expanded_ < by_call_.size() && by_call_[expanded_].first < call; ++expanded_) {
      visit(by_call_[expanded_].second);
    }
    for (const int rank : mute_) visit(rank);
    return !mute_.empty() || (!by_call_.empty() && by_call_.front().first < call);
  }

  void expand(int rank) {
    bool waits = false;
    for (const Activity* activity : answers(rank)) {
      switch (activity->kind) {
        case Kind::kIdle:
          break;
        case Kind::kCollective:
          if (!activity->begun) break;
          waits = visit_behind(activity->called) || activity->waits_for >= 0 || waits;
          visit(activity->waits_for);
          break;
        case Kind::kSend:
        case Kind::kReceive:
          waits = true;
          visit(activity->waits_for);
          // From any source: whoever is there might send.
          for (int other = 0; activity->waits_for < 0 && other < picture_.ranks; ++other) visit(other);
          break;
      }
    }
    if (!waits) ends_.add(rank);
  }

  const StallPicture& picture_;
  const std::size_t ranks_;
  std::vector<bool> visited_;
  std::vector<std::vector<const Activity*>> of_;        // by rank
  std::vector<std::pair<std::uint64_t, int>> by_call_;  // of those who answered: how far they are, in order
  std::size_t expanded_ = 0;                            // of by_call_
  std::vector<int> mute_;                               // did not answer, or could not be asked
  std::vector<int> queue_;
  RankSet ends_;
};

class Words {
 public:
  explicit Words(const StallPicture& picture) : picture_(picture) {}

  void add(std::string clause) {
    if (full_) return;
    full_ = text_.size() + clause.size() > kMostBytes;
    if (full_) clause = "…";
    text_ += (text_.empty() ? "" : "; ") + clause;
  }

  // "rank 3 (node1 pid 77)", "ranks 3-9".
  std::string names(const RankSet& ranks) const {
    if (ranks.size() > kMostNamed) return "ranks " + ranks.text();
    std::string text;
    for (const int rank : ranks.ranks()) text += (text.empty() ? "" : ", ") + picture_.describe(rank);
    return text;
  }

  void add_silent() {
    for (const Survey::Silent& silent : picture_.survey.silent) {
      add(fmt::format("{}{} does not answer {}: it is stopped, or its host hangs", silent.process,
                      silent.rank < 0 ? ", which is no member," : "", silent.observer));
    }
    if (const RankSet& unknown = picture_.survey.unknown; !unknown.empty()) {
      add(fmt::format("nothing is known of rank{} {}, which {} reached through {}", unknown.size() > 1 ? "s" : "",
                      unknown.text(), unknown.size() > 1 ? "are" : "is",
                      picture_.survey.silent.empty() ? "others that are leaving" : "it"));
    }
  }

  static std::string instead(const Activity& activity, bool many) {
    if (activity.elsewhere.empty()) return "";
    return fmt::format(": {} in {}", many ? "their processes are" : "its process is", activity.elsewhere);
  }

  void add_blamed(const Activity& activity, const RankSet& ranks) {
    const bool many = ranks.size() > 1;
    switch (activity.kind) {
      case Kind::kIdle: {
        std::string since = activity.called == 0 ? "yet" : fmt::format("since #{}", activity.called);
        if (activity.since_ms != Activity::kUnknownTime) since += fmt::format(", for {}", time_text(activity.since_ms));
        return add(fmt::format("{} {} made no call {}{}", names(ranks), many ? "have" : "has", since,
                               instead(activity, many)));
      }
      case Kind::kCollective:
        if (!activity.begun) {
          return add(fmt::format("{} {} issued {}, which waits behind another call of its thread or stream{}",
                                 names(ranks), many ? "have" : "has", activity.text, instead(activity, many)));
        }
        break;
      default:
        break;
    }
    std::string where = fmt::format("{} {} in {}", names(ranks), many ? "are" : "is",
                                    activity.text.empty() ? "another call" : activity.text);
    if (activity.kind != Kind::kCollective && activity.called > 0) where += fmt::format(", after #{}", activity.called);
    where += ", for " + time_text(activity.since_ms);
    if (activity.waits_for >= 0) {
      where += fmt::format(" and {} for rank {}", many ? "wait" : "waits", activity.waits_for);
    }
    add(std::move(where));
  }

  // Those who are not to blame. `called`: what the one who asked is in.
  void add_waiting(const Activity& activity, const RankSet& ranks, const std::string& called) {
    const bool many = ranks.size() > 1;
    std::string where = fmt::format("rank{} {} {}", many ? "s" : "", ranks.text(), many ? "wait" : "waits");
    if (activity.kind != Kind::kCollective && activity.waits_for >= 0)
      where += fmt::format(" for rank {}", activity.waits_for);
    if (activity.text != called) where += " in " + (activity.text.empty() ? "another call" : activity.text);
    add(where + (activity.kind == Kind::kCollective || activity.waits_for < 0 ? " for " : ", for ") +
        time_text(activity.since_ms));
  }

  std::string take() { return std::move(text_); }

 private:
  const StallPicture& picture_;
  std::string text_;
  bool full_ = false;
};

// What the rank that asked is in, longest first.
const Activity* own_call(const Search& search, int rank) {
  const auto& own = search.answers(rank);
  const auto longest = std::ranges::max_element(own, {}, [](const Activity* a) {
    return a->kind == Kind::kIdle ? -1 : static_cast<std::int64_t>(a->since_ms) + (a->begun ? 1 : 0);
  });
  return longest == own.end() || (*longest)->kind == Kind::kIdle ? nullptr : *longest;
}

RankSet common(const RankSet& a, const RankSet& b) {
  RankSet both;
  for (const int rank : a.ranks()) {
    if (b.contains(rank)) both.add(rank);
  }
  return both;
}

RankSet without(const RankSet& a, const RankSet& b) {
  RankSet rest;
  for (const int rank : a.ranks()) {
    if (!b.contains(rank)) rest.add(rank);
  }
  return rest;
}

}  // namespace

StallReport explain_stall(const StallPicture& picture) {
  const Search search(picture);
  const auto& findings = picture.survey.findings.findings;
  Words words(picture);
  RankSet mute = picture.survey.unknown;
  for (const Survey::Silent& silent : picture.survey.silent) {
    if (silent.rank >= 0) mute.add(silent.rank);
  }
  RankSet blamed = search.ends();
  if (blamed.empty()) blamed = search.furthest_behind();

  if (!common(blamed, mute).empty() || (!picture.survey.unknown.empty() && blamed.empty())) words.add_silent();
  for (const Finding& finding : findings) {
    const RankSet ranks = common(finding.ranks, blamed);
    if (!ranks.empty()) words.add_blamed(finding.activity, ranks);
  }
  if (blamed.empty()) words.add("every rank in it waits for another one in a circle");
  const Activity* own = own_call(search, picture.rank);
  const std::string called = own != nullptr ? own->text : "";
  // Where somebody is to blame, it does not matter which rank of a collective waits for which other.
  Findings waiting;
  for (const Finding& finding : findings) {
    Activity activity = finding.activity;
    const RankSet ranks = without(finding.ranks, blamed);
    if (activity.kind == Kind::kIdle || ranks.empty()) continue;
    if (activity.kind == Kind::kCollective && !blamed.empty()) activity.waits_for = Activity::kNobody;
    waiting.add(activity, ranks);
  }
  // First those in the same call.
  for (const bool same : {true, false}) {
    for (const Finding& finding : waiting.findings) {
      if ((finding.activity.text == called) != same) continue;
      if (blamed.empty()) {
        words.add_blamed(finding.activity, finding.ranks);
      } else {
        words.add_waiting(finding.activity, finding.ranks, called);
      }
    }
  }
  const RankSet silent = common(blamed, without(mute, picture.survey.unknown));
  if (!silent.empty()) blamed = silent;
  return {words.take(), blamed.size() == 1 ? blamed.ranks().front() : -1};
}

}  // namespace tutti
