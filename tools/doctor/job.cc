#include "doctor/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::doctor {
namespace {

constexpr double kSameMoment = 10;  // seconds between two files that tell of one situation

}  // namespace

Job::Job(const std::vector<std::vector<Report>>& communicators) {
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    for (const Report& report : communicators[c]) {
      if (!reports_.emplace(Member{c, report.rank}, &report).second) continue;
      processes_[process_of(report)].push_back({c, report.rank});
    }
  }
}

const Report* Job::report(Member member) const {
  const auto found = reports_.find(member);
  return found == reports_.end() ? nullptr : found->second;
}

bool Job::is_alone(Member member) const {
  const Report* const own = report(member);
  return own == nullptr ||
         std::ranges::count(processes_.at(process_of(*own)), member.communicator, &Member::communicator) == 1;
}

std::vector<Member> Job::same_process(Member member) const {
  const Report* const own = report(member);
  if (own == nullptr || !is_alone(member)) return {};
  std::vector<Member> others;
  for (const Member other : processes_.at(process_of(*own))) {
    if (other == member || !is_alone(other)) continue;
    if (std::abs(report(other)->written - own->written) <= kSameMoment) others.push_back(other);
  }
  return others;
}

const Operation* current_call(const Report& report) {
  const Operation* first = nullptr;
  for (const Operation& operation : report.operations) {
    if (operation.sequence == 0 || !operation.is_pending()) continue;
    if (first == nullptr || operation.sequence < first->sequence) first = &operation;
  }
  return first;
}

const Operation* longest_pending(const Report& report) {
  const Operation* longest = current_call(report);
  for (const Operation& operation : report.operations) {
    if (operation.sequence > 0 || !operation.is_pending()) continue;
    if (longest == nullptr || operation.waited_seconds > longest->waited_seconds) longest = &operation;
  }
  return longest;
}

std::string named(const Operation& operation) {
  return operation.sequence > 0 ? fmt::format("{} #{}", operation.what, operation.sequence) : operation.what;
}

}  // namespace tutti::doctor
