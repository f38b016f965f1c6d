#include <fmt/format.h>

#include <algorithm>

#include "doctor/diagnosis.h"

// What a diagnosis looks like on a screen.
namespace tutti::doctor {
namespace {

constexpr std::size_t kMostLines = 12;   // of one kind
constexpr std::size_t kMostRanges = 12;  // of ranks in one line
constexpr std::size_t kMostLatecomers = 3;

std::string whom(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", ranges(ranks));
}

std::string waiting(double seconds) { return seconds >= 0.1 ? fmt::format(", for {:.1f} s", seconds) : ""; }

template <class List, class Line>
void add_lines(std::string& text, const List& list, Line line) {
  std::size_t shown = 0;
  for (const auto& entry : list) {
    if (shown == kMostLines) {
      text += fmt::format("  … and {} more\n", list.size() - shown);
      return;
    }
    text += line(entry);
    ++shown;
  }
}

}  // namespace

std::string ranges(const std::vector<int>& ranks) {
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  std::string text;
  std::size_t count = 0;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    if (count++ == kMostRanges) return text + fmt::format(" … ({} in all)", sorted.size());
    if (!text.empty()) text += ',';
    text += end - i == 1   ? fmt::format("{}", sorted[i])
            : end - i == 2 ? fmt::format("{},{}", sorted[i], sorted[i + 1])
                           : fmt::format("{}-{}", sorted[i], sorted[end - 1]);
    i = end;
  }
  return text;
}

std::string to_text(const Diagnosis& diagnosis) {
  std::string text =
      fmt::format("communicator \"{}\" ({}), {} rank{}: {}\n", diagnosis.name, diagnosis.id, diagnosis.ranks,
                  diagnosis.ranks == 1 ? "" : "s",
                  diagnosis.missing.empty() ? "every rank has a file" : "no file of " + whom(diagnosis.missing));
  add_lines(text, diagnosis.states, [](const Diagnosis::State& state) {
    return fmt::format("  {}: {}{}\n", whom(state.ranks), state.text, waiting(state.waited_seconds));
  });
  if (!diagnosis.stalls.empty()) {
    text += "the last stall that was reported:\n";
    add_lines(text, diagnosis.stalls,
              [](const Diagnosis::State& state) { return fmt::format("  {}: {}\n", whom(state.ranks), state.text); });
  }
  if (diagnosis.divergence > 0) {
    text += fmt::format("first difference: call #{}\n", diagnosis.divergence);
    add_lines(text, diagnosis.diverging,
              [](const Diagnosis::State& state) { return fmt::format("  {}: {}\n", whom(state.ranks), state.text); });
  }
  if (!diagnosis.waits.empty()) {
    std::map<std::set<int>, std::vector<int>> by_cause;
    for (const auto& [rank, peers] : diagnosis.waits) by_cause[peers].push_back(rank);
    text += "who waits for whom:\n";
    add_lines(text, by_cause, [](const auto& entry) {
      return fmt::format("  {} → {}\n", whom(entry.second), whom({entry.first.begin(), entry.first.end()}));
    });
  }
  if (!diagnosis.blame.empty()) {
    text += "the cause:\n";
    add_lines(text, diagnosis.blame, [](const Diagnosis::Blame& blame) { return fmt::format("  {}\n", blame.text); });
  }
  std::vector<std::pair<int, Report::Waited>> late(diagnosis.came_last.begin(), diagnosis.came_last.end());
  std::ranges::sort(late, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  if (late.size() > kMostLatecomers) late.resize(kMostLatecomers);
  std::string latecomers;
  for (const auto& [rank, waited] : late) {
    latecomers += fmt::format("{} rank {} ({} times, {:.3f} s)", latecomers.empty() ? "" : ",", rank, waited.calls,
                              waited.seconds);
  }
  if (!latecomers.empty()) text += "waited for most:" + latecomers + "\n";
  return text + (diagnosis.healthy() ? "nothing is wrong here\n" : "");
}

}  // namespace tutti::doctor
