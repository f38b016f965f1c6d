#include "doctor/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace tutti::doctor {
namespace {

constexpr double kLongWait = 1.0;  // seconds; what waits for less may have been on its way when the file was written

using ByRank = std::map<int, const Report*>;

std::string described(const Report& report, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return r < report.members.size() ? report.members[r] : fmt::format("rank {}", rank);
}

// The collective that a rank carries on; the first, where several are queued.
const Operation* current(const Report& report) {
  const Operation* first = nullptr;
  for (const Operation& operation : report.operations) {
    if (operation.sequence == 0 || !operation.is_pending()) continue;
    if (first == nullptr || operation.sequence < first->sequence) first = &operation;
  }
  return first;
}

const Operation* find_call(const Report& report, std::uint64_t sequence) {
  const auto found = std::ranges::find(report.operations, sequence, &Operation::sequence);
  return found == report.operations.end() ? nullptr : &*found;
}

std::string named(const Operation& operation) {
  return operation.sequence > 0 ? fmt::format("{} #{}", operation.what, operation.sequence) : operation.what;
}

std::string idle_text(const Report& report) {
  const Operation* last = find_call(report, report.last_issued());
  return last == nullptr || last->sequence == 0 ? std::string("in no call, and has made none yet")
                                                : fmt::format("in no call; the last was {}", named(*last));
}

// What a rank does, and for how long it has waited in that.
std::pair<std::string, double> state_of(const Report& report) {
  if (report.failed) return {fmt::format("failed ({}): {}", report.failure_code, report.failure_reason), 0};
  std::vector<const Operation*> pending;
  if (const Operation* call = current(report)) pending.push_back(call);
  for (const Operation& operation : report.operations) {
    if (operation.sequence == 0 && operation.is_pending()) pending.push_back(&operation);
  }
  if (pending.empty()) return {idle_text(report), 0};
  const auto longest = *std::ranges::max_element(pending, {}, &Operation::waited_seconds);
  std::string text = fmt::format("{} {}", longest->phase == "queued" ? "queued:" : "in", named(*longest));
  if (pending.size() > 1) text += fmt::format(" and {} more", pending.size() - 1);
  return {text, longest->waited_seconds};
}

void group(std::vector<Diagnosis::State>& states, int rank, const std::string& text, double waited) {
  const auto same = std::ranges::find(states, text, &Diagnosis::State::text);
  auto& state = same != states.end() ? *same : states.emplace_back(Diagnosis::State{{}, text, 0});
  state.ranks.push_back(rank);
  state.waited_seconds = std::max(state.waited_seconds, waited);
}

// A rank that failed before it could know what the others called has a record of its own; what counts is the signature.
void find_divergence(const ByRank& reports, Diagnosis& diagnosis) {
  std::set<std::uint64_t> sequences;
  for (const auto& [rank, report] : reports) {
    for (const Operation& operation : report->operations) {
      if (operation.sequence > 0) sequences.insert(operation.sequence);
    }
  }
  for (const std::uint64_t sequence : sequences) {
    std::set<std::string> signatures;
    for (const auto& [rank, report] : reports) {
      if (const Operation* call = find_call(*report, sequence)) signatures.insert(call->signature);
    }
    if (signatures.size() < 2) continue;
    diagnosis.divergence = sequence;
    for (const auto& [rank, report] : reports) {
      if (const Operation* call = find_call(*report, sequence)) {
        group(diagnosis.diverging, rank, call->what, 0);
      }
    }
    return;
  }
}

// In a collective, for those who have not begun it and for whom the rank itself waits; in a transfer, for the peer.
void find_waits(const ByRank& reports, Diagnosis& diagnosis) {
  for (const auto& [rank, report] : reports) {
    for (const Operation& operation : report->operations) {
      const bool was_waiting = operation.is_pending() || (report->failed && operation.phase == "failed");
      if (!was_waiting || operation.waited_seconds < kLongWait) continue;
      std::set<int>& waits = diagnosis.waits[rank];
      if (operation.sequence == 0) {
        if (operation.peer >= 0 && operation.peer != rank) waits.insert(operation.peer);
        continue;
      }
      std::set<int> behind;
      for (const auto& [other, theirs] : reports) {
        const Operation* same = find_call(*theirs, operation.sequence);
        if (other != rank && theirs->last_issued() < operation.sequence) behind.insert(other);
        if (other != rank && same != nullptr && same->phase == "queued") behind.insert(other);
      }
      // Who has not come is the cause; whoever only has not sent yet waits for that rank, too.
      if (!behind.empty()) {
        waits.insert(behind.begin(), behind.end());
      } else if (operation.waits_for >= 0 && operation.waits_for != rank) {
        waits.insert(operation.waits_for);
      }
      for (const int missing : diagnosis.missing) {
        if (behind.empty() && operation.waits_for < 0) waits.insert(missing);
      }
    }
  }
  std::erase_if(diagnosis.waits, [](const auto& entry) { return entry.second.empty(); });
}

std::string no_file(const Report& any, int rank) {
  return fmt::format("{} wrote no file: it is dead or stopped, or its file is elsewhere", described(any, rank));
}

void find_blame(const ByRank& reports, Diagnosis& diagnosis) {
  std::set<int> waited_for;
  for (const auto& [rank, peers] : diagnosis.waits) waited_for.insert(peers.begin(), peers.end());
  const Report& any = *reports.begin()->second;
  for (const int rank : waited_for) {
    if (diagnosis.waits.contains(rank)) continue;
    std::string text;
    if (const auto report = reports.find(rank); report != reports.end()) {
      text = report->second->failed ? fmt::format("{}, which waited for nobody", described(any, rank))
                                    : fmt::format("{}: {}. It computes, or hangs outside of tutti",
                                                  described(any, rank), state_of(*report->second).first);
    } else if (any.left.contains(rank)) {
      text = fmt::format("{} has left after call #{}", described(any, rank), any.left.at(rank));
    } else {
      text = no_file(any, rank);
    }
    diagnosis.blame.push_back({{rank}, text});
  }
  if (!diagnosis.blame.empty() || diagnosis.waits.empty()) return;
  // Everybody who is waited for waits, too. Ranks of one collective do so when a rank behind them does not come.
  for (const int rank : diagnosis.missing) diagnosis.blame.push_back({{rank}, no_file(any, rank)});
  if (!diagnosis.missing.empty()) return;
  // Follow the waits until a rank comes again.
  std::vector<int> path{diagnosis.waits.begin()->first};
  while (true) {
    const int next = *diagnosis.waits.at(path.back()).begin();
    const auto seen = std::ranges::find(path, next);
    if (seen == path.end()) {
      path.push_back(next);
      continue;
    }
    path.erase(path.begin(), seen);
    std::string circle;
    for (const int rank : path) circle += fmt::format("{} → ", rank);
    diagnosis.blame.push_back({path, fmt::format("ranks wait for each other in a circle: {}{}", circle, path.front())});
    return;
  }
}

// Where neither a wait nor a call tells who it was, failures do.
void find_named(const ByRank& reports, Diagnosis& diagnosis) {
  if (!diagnosis.blame.empty() || diagnosis.divergence > 0) return;
  std::map<int, std::vector<int>> named_by;
  for (const auto& [rank, report] : reports) {
    if (report->failed && report->failure_peer >= 0) named_by[report->failure_peer].push_back(rank);
  }
  for (const auto& [peer, ranks] : named_by) {
    diagnosis.blame.push_back({{peer},
                               fmt::format("{}, as rank{} {} learned", described(*reports.begin()->second, peer),
                                           ranks.size() == 1 ? "" : "s", ranges(ranks))});
  }
}

}  // namespace

bool Diagnosis::healthy() const {
  return missing.empty() && divergence == 0 && blame.empty() &&
         std::ranges::none_of(states, [](const State& state) { return state.text.starts_with("failed"); });
}

Diagnosis diagnose(const std::vector<Report>& reports) {
  Diagnosis diagnosis;
  if (reports.empty()) return diagnosis;
  ByRank by_rank;
  for (const Report& report : reports) by_rank[report.rank] = &report;
  diagnosis.name = reports.front().name;
  diagnosis.id = reports.front().id;
  diagnosis.ranks = reports.front().ranks;
  for (int rank = 0; rank < diagnosis.ranks; ++rank) {
    if (by_rank.contains(rank)) continue;
    if (std::ranges::none_of(reports, [rank](const Report& report) { return report.left.contains(rank); })) {
      diagnosis.missing.push_back(rank);
    }
  }
  for (const auto& [rank, report] : by_rank) {
    const auto [text, waited] = state_of(*report);
    group(diagnosis.states, rank, text, waited);
    // That of a call with a limit is the reason of the failure.
    const bool told = report->stall.empty() || report->failure_reason.find(report->stall) != std::string::npos;
    if (!told) group(diagnosis.stalls, rank, report->stall, 0);
    for (const auto& [late, counted] : report->waited_for) {
      diagnosis.came_last[late].calls += counted.calls;
      diagnosis.came_last[late].seconds += counted.seconds;
    }
  }
  find_divergence(by_rank, diagnosis);
  find_waits(by_rank, diagnosis);
  find_blame(by_rank, diagnosis);
  find_named(by_rank, diagnosis);
  return diagnosis;
}

}  // namespace tutti::doctor
