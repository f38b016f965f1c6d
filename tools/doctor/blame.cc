#include "doctor/blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tutti::doctor {
namespace {

constexpr int kMostSearches = 16;  // for circles through several communicators: more are not shown

// The ways along which one communicator's ranks wait for others, in it and through what their processes do elsewhere.
class Blaming {
 public:
  Blaming(const Job& job, const std::vector<Diagnosis>& all, std::size_t communicator)
      : job_(job), all_(all), here_(communicator), diagnosis_(all[communicator]) {
    for (const int rank : diagnosis_.reporting) {
      if (any_ == nullptr) any_ = job.report({here_, rank});
    }
  }

  std::vector<Diagnosis::Blame> take() {
    add_outvoted();
    add_ends();
    if (blame_.empty() && !diagnosis_.waits.empty()) {
      // Everybody who is waited for waits, too. Ranks of one collective do so when a rank behind them does not come.
      for (const int rank : diagnosis_.missing) add(rank, no_file(rank));
      if (diagnosis_.missing.empty()) add_circle();
    }
    if (blame_.empty() && diagnosis_.divergence == 0) add_named_by_failures();
    return std::move(blame_);
  }

 private:
  const std::set<int>* waits_of(Member member) const {
    const auto& waits = all_[member.communicator].waits;
    const auto found = waits.find(member.rank);
    return found == waits.end() ? nullptr : &found->second;
  }

  std::string described(Member member) const {
    const Report* const report = member.communicator == here_ ? any_ : job_.report(member);
    const auto r = static_cast<std::size_t>(member.rank);
    return report != nullptr && r < report->members.size() ? report->members[r] : fmt::format("rank {}", member.rank);
  }
  std::string described(int rank) const { return described(Member{here_, rank}); }

  void add(int rank, const std::string& text) { blame_.push_back({{rank}, text}); }

  std::string no_file(int rank) const {
    return fmt::format("{} wrote no file: it is dead or stopped, or its file is elsewhere", described(rank));
  }

  // Of ranks whose calls differ, those that do not do what most do.
  void add_outvoted() {
    std::size_t all = 0;
    for (const auto& one : diagnosis_.diverging) all += one.ranks.size();
    const auto most =
        std::ranges::max_element(diagnosis_.diverging, {}, [](const auto& one) { return one.ranks.size(); });
    if (most == diagnosis_.diverging.end() || 2 * most->ranks.size() <= all) return;
    for (const auto& one : diagnosis_.diverging) {
      if (&one == &*most) continue;
      const bool many = one.ranks.size() > 1;
      blame_.push_back({one.ranks, fmt::format("{} called {} as #{}, and most others {}",
                                               many ? "ranks " + ranges(one.ranks) : described(one.ranks.front()),
                                               one.text, diagnosis_.divergence, most->text)});
    }
  }

  // Where neither a wait nor a call tells who it was, failures do.
  void add_named_by_failures() {
    std::map<int, std::vector<int>> named_by;
    for (const int rank : diagnosis_.reporting) {
      const Report& report = *job_.report({here_, rank});
      if (report.failed && report.failure_peer >= 0) named_by[report.failure_peer].push_back(rank);
    }
    for (const auto& [rank, ranks] : named_by) {
      add(rank, fmt::format("{}, as rank{} {} learned", described(rank), ranks.size() > 1 ? "s" : "", ranges(ranks)));
    }
  }

  // Who is waited for and waits for nobody in this communicator.
  void add_ends() {
    std::set<int> ends;
    for (const auto& [rank, peers] : diagnosis_.waits) ends.insert(peers.begin(), peers.end());
    for (const auto& blame : blame_) {
      for (const int rank : blame.ranks) ends.erase(rank);
    }
    for (const int rank : ends) {
      if (diagnosis_.waits.contains(rank)) continue;
      if (const Report* const report = job_.report({here_, rank})) {
        add(rank, report->failed ? fmt::format("{}, which waited for nobody", described(rank)) : about(*report));
      } else if (any_->left.contains(rank)) {
        const std::uint64_t last = any_->left.at(rank);
        add(rank, fmt::format("{} has left {}", described(rank),
                              last == 0 ? "before its first call" : fmt::format("after call #{}", last)));
      } else {
        add(rank, no_file(rank));
      }
    }
  }

  std::string about(const Report& report) {
    const Member member{here_, report.rank};
    for (const Member other : job_.same_process(member)) {
      const std::set<int>* const waits = waits_of(other);
      if (waits == nullptr || job_.report(other)->failed) continue;
      if (const auto circle = searches_++ < kMostSearches ? circle_through(member) : std::nullopt) {
        return circle_text(*circle);
      }
      const std::vector<int> ranks(waits->begin(), waits->end());
      return fmt::format("{}: {}, and waits there for rank{} {}: see communicator \"{}\"", described(member),
                         state(report), ranks.size() > 1 ? "s" : "", ranges(ranks), all_[other.communicator].name);
    }
    const Operation* const pending = longest_pending(report);
    const char* advice = !elsewhere(job_, all_, member).empty() ? ""
                         : pending != nullptr                   ? ", behind another call of its thread or stream"
                         : job_.is_alone(member)                ? ". It computes, or hangs outside of tutti"
                                                 : ". It computes, hangs outside of tutti, or is in a call of another "
                                                   "communicator: its process is several ranks of this one";
    return fmt::format("{}: {}{}", described(member), state(report), advice);
  }

  std::string state(const Report& report) const {
    const auto& states = diagnosis_.states;
    const auto own = std::ranges::find_if(
        states, [&](const auto& one) { return std::ranges::find(one.ranks, report.rank) != one.ranks.end(); });
    return own == states.end() ? "" : own->text;
  }

  std::vector<Member> next_of(Member member) const {
    std::vector<Member> next;
    if (const std::set<int>* const waits = waits_of(member)) {
      for (const int rank : *waits) next.push_back({member.communicator, rank});
      return next;
    }
    for (const Member other : job_.same_process(member)) {
      if (waits_of(other) != nullptr && !job_.report(other)->failed) next.push_back(other);
    }
    return next;
  }

  // The shortest way from a member back to itself, without its return.
  std::optional<std::vector<Member>> circle_through(Member start) const {
    std::map<Member, Member> from;
    std::vector<Member> reached{start};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (const Member next : next_of(reached[i])) {
        if (next == start) {
          std::vector<Member> path{reached[i]};
          while (path.back() != start) path.push_back(from.at(path.back()));
          std::ranges::reverse(path);
          return path;
        }
        if (from.emplace(next, reached[i]).second) reached.push_back(next);
      }
    }
    return std::nullopt;
  }

  std::string circle_text(const std::vector<Member>& path) const {
    std::string text = described(path.front());
    bool in_call = false;  // the text tells already what the last one is in
    for (std::size_t i = 0; i < path.size(); ++i) {
      const Member now = path[i];
      const Member next = path[(i + 1) % path.size()];
      if (now.communicator == next.communicator) {
        text += fmt::format("{} for {}", in_call ? " and waits" : ", which waits", described(next));
        in_call = false;
      } else {
        text += fmt::format("{} in {} of \"{}\"", i == 0 ? " is" : ", which is",
                            named(*longest_pending(*job_.report(next))), all_[next.communicator].name);
        in_call = true;
      }
    }
    return text + ": a circle. Make these calls in one order on all ranks, or in one Group";
  }

  // Follows the waits until a rank comes again.
  void add_circle() {
    std::vector<int> path{diagnosis_.waits.begin()->first};
    while (true) {
      const int next = *diagnosis_.waits.at(path.back()).begin();
      const auto seen = std::ranges::find(path, next);
      if (seen == path.end()) {
        path.push_back(next);
        continue;
      }
      path.erase(path.begin(), seen);
      std::string circle;
      for (const int rank : path) circle += fmt::format("{} → ", rank);
      blame_.push_back({path, fmt::format("ranks wait for each other in a circle: {}{}", circle, path.front())});
      return;
    }
  }

  const Job& job_;
  const std::vector<Diagnosis>& all_;
  const std::size_t here_;
  const Diagnosis& diagnosis_;
  const Report* any_ = nullptr;
  int searches_ = 0;
  std::vector<Diagnosis::Blame> blame_;
};

}  // namespace

std::string elsewhere(const Job& job, const std::vector<Diagnosis>& all, Member member) {
  const Operation* longest = nullptr;
  std::size_t where = 0;
  for (const Member other : job.same_process(member)) {
    const Report& report = *job.report(other);
    const Operation* const pending = report.failed ? nullptr : longest_pending(report);
    if (pending == nullptr || (longest != nullptr && pending->waited_seconds <= longest->waited_seconds)) continue;
    longest = pending;
    where = other.communicator;
  }
  return longest == nullptr ? "" : fmt::format("its process is in {} of \"{}\"", named(*longest), all[where].name);
}

std::vector<Diagnosis::Blame> find_blame(const Job& job, const std::vector<Diagnosis>& all, std::size_t communicator) {
  return Blaming(job, all, communicator).take();
}

}  // namespace tutti::doctor
