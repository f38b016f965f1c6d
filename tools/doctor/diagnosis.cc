#include "doctor/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/blame.h"
#include "doctor/job.h"

namespace tutti::doctor {
namespace {

constexpr double kLongWait = 1.0;  // seconds; what waits for less may have been on its way when the file was written

using ByRank = std::map<int, const Report*>;

const Operation* find_call(const Report& report, std::uint64_t sequence) {
  const auto found = std::ranges::find(report.operations, sequence, &Operation::sequence);
  return found == report.operations.end() ? nullptr : &*found;
}

std::string idle_text(const Report& report) {
  const Operation* last = find_call(report, report.last_issued());
  return last == nullptr || last->sequence == 0 ? std::string("in no call, and has made none yet")
                                                : fmt::format("in no call; the last was {}", named(*last));
}

// What a rank does, and for how long it has waited in that.
std::pair<std::string, double> state_of(const Report& report) {
  if (report.failed) return {fmt::format("failed ({}): {}", report.failure_code, report.failure_reason), 0};
  const Operation* const longest = longest_pending(report);
  if (longest == nullptr) return {idle_text(report), 0};
  std::string text = fmt::format("{} {}", longest->phase == "queued" ? "queued:" : "in", named(*longest));
  const auto transfers = std::ranges::count_if(
      report.operations, [](const Operation& one) { return one.sequence == 0 && one.is_pending(); });
  const auto more = transfers + (current_call(report) != nullptr ? 1 : 0) - 1;
  if (more > 0) text += fmt::format(" and {} more", more);
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

}  // namespace

bool Diagnosis::healthy() const {
  return missing.empty() && divergence == 0 && blame.empty() &&
         std::ranges::none_of(states, [](const State& state) { return state.text.starts_with("failed"); });
}

namespace {

// Everything that the reports of one communicator say by themselves.
Diagnosis begin(const std::vector<Report>& reports) {
  Diagnosis diagnosis;
  if (reports.empty()) return diagnosis;
  ByRank by_rank;
  for (const Report& report : reports) by_rank[report.rank] = &report;
  diagnosis.name = reports.front().name;
  diagnosis.id = reports.front().id;
  diagnosis.ranks = reports.front().ranks;
  for (int rank = 0; rank < diagnosis.ranks; ++rank) {
    if (by_rank.contains(rank)) {
      diagnosis.reporting.push_back(rank);
    } else if (std::ranges::none_of(reports, [rank](const Report& report) { return report.left.contains(rank); })) {
      diagnosis.missing.push_back(rank);
    }
  }
  for (const auto& [rank, report] : by_rank) {
    for (const auto& [late, counted] : report->waited_for) {
      diagnosis.came_last[late].calls += counted.calls;
      diagnosis.came_last[late].seconds += counted.seconds;
    }
  }
  find_divergence(by_rank, diagnosis);
  find_waits(by_rank, diagnosis);
  for (const auto& [rank, report] : by_rank) {
    // That of a call with a limit is the reason of the failure.
    const bool told = report->stall.empty() || report->failure_reason.find(report->stall) != std::string::npos;
    if (!told) group(diagnosis.stalls, rank, report->stall, 0);
  }
  return diagnosis;
}

}  // namespace

std::vector<Diagnosis> diagnose_job(const std::vector<std::vector<Report>>& communicators) {
  std::vector<Diagnosis> all;
  for (const std::vector<Report>& reports : communicators) all.push_back(begin(reports));
  const Job job(communicators);
  for (std::size_t c = 0; c < all.size(); ++c) {
    for (const int rank : all[c].reporting) {
      const Report& report = *job.report({c, rank});
      auto [text, waited] = state_of(report);
      const Operation* const pending = longest_pending(report);
      if (!report.failed && (pending == nullptr || pending->phase == "queued")) {
        if (const std::string where = elsewhere(job, all, {c, rank}); !where.empty()) text += "; " + where;
      }
      group(all[c].states, rank, text, waited);
    }
  }
  for (std::size_t c = 0; c < all.size(); ++c) all[c].blame = find_blame(job, all, c);
  std::stable_partition(all.begin(), all.end(), [](const Diagnosis& one) { return !one.healthy(); });
  return all;
}

Diagnosis diagnose(const std::vector<Report>& reports) { return diagnose_job({reports}).front(); }

}  // namespace tutti::doctor
