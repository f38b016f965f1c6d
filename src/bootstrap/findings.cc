#include "bootstrap/findings.h"

#include <algorithm>

namespace tutti {

void RankSet::add(const RankSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  std::ranges::sort(ranges_);
  std::vector<Range> joined;
  for (const Range& range : ranges_) {
    if (!joined.empty() && range.first <= joined.back().second + 1) {
      joined.back().second = std::max(joined.back().second, range.second);
    } else {
      joined.push_back(range);
    }
  }
  ranges_ = std::move(joined);
}

void RankSet::add(int rank) {
  if (!ranges_.empty() && rank <= ranges_.back().second) return add(RankSet(rank));
  if (ranges_.empty() || rank > ranges_.back().second + 1) return ranges_.push_back({rank, rank});
  ranges_.back().second = rank;
}

bool RankSet::contains(int rank) const {
  const auto next = std::ranges::upper_bound(ranges_, rank, {}, &Range::first);
  return next != ranges_.begin() && rank <= std::prev(next)->second;
}

int RankSet::size() const {
  int size = 0;
  for (const auto& [first, last] : ranges_) size += last - first + 1;
  return size;
}

std::vector<int> RankSet::ranks() const {
  std::vector<int> all;
  for (const auto& [first, last] : ranges_) {
    for (int rank = first; rank <= last; ++rank) all.push_back(rank);
  }
  return all;
}

std::string RankSet::text() const {
  std::string text;
  for (const auto& [first, last] : ranges_) {
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += (last > first + 1 ? "-" : ",") + std::to_string(last);
  }
  return text;
}

bool Activity::is_like(const Activity& other) const {
  return kind == other.kind && begun == other.begun && called == other.called && waits_for == other.waits_for &&
         text == other.text && elsewhere == other.elsewhere;
}

void Findings::add(const Activity& activity, const RankSet& ranks) {
  const auto like = std::ranges::find_if(findings, [&](const Finding& f) { return f.activity.is_like(activity); });
  if (like == findings.end()) {
    findings.push_back({activity, ranks});
    if (findings.size() > kMost) shorten();
    return;
  }
  like->ranks.add(ranks);
  // The longest wait of several; but what none of them has done for so long.
  std::uint32_t& since = like->activity.since_ms;
  if (since == Activity::kUnknownTime || activity.since_ms == Activity::kUnknownTime) {
    since = activity.kind == Activity::Kind::kIdle ? Activity::kUnknownTime : std::min(since, activity.since_ms);
  } else {
    const bool idle = activity.kind == Activity::Kind::kIdle;
    since = idle ? std::min(since, activity.since_ms) : std::max(since, activity.since_ms);
  }
}

void Findings::add(const Findings& other) {
  for (const Finding& finding : other.findings) add(finding.activity, finding.ranks);
  for (const Silent& one : other.silent) {
    if (std::ranges::find(silent, one) == silent.end()) silent.push_back(one);
  }
}

// Too many ranks do different things to tell of each: whom they wait for goes first, then what they call; what is still
// too much is left out.
void Findings::shorten() {
  for (const bool keep_text : {true, false}) {
    const std::vector<Finding> all = std::exchange(findings, {});
    for (Finding finding : all) {
      if (finding.activity.waits_for >= 0) finding.activity.waits_for = Activity::kSeveral;
      if (!keep_text) {
        finding.activity.text.clear();
        finding.activity.elsewhere.clear();
      }
      const auto like =
          std::ranges::find_if(findings, [&](const Finding& f) { return f.activity.is_like(finding.activity); });
      if (like == findings.end()) {
        findings.push_back(std::move(finding));
      } else {
        like->ranks.add(finding.ranks);
      }
    }
    if (findings.size() <= kMost / 2) return;
  }
  findings.resize(std::min(findings.size(), kMost / 2));
}

}  // namespace tutti
