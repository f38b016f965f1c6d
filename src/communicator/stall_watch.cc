#include "communicator/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "bootstrap/waiting_times.h"
#include "communicator/activities.h"
#include "communicator/stall_report.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBetweenQuestions{1000};
// Mostly the lowest rank that waits asks, and the others see that before their time has come.
constexpr milliseconds kStagger{5};
constexpr milliseconds kMostStagger{300};
// Of two ranks that asked at the same time, the second has nothing new to say.
constexpr milliseconds kSameTime{500};

std::uint64_t word_of(Clock::time_point time) { return static_cast<std::uint64_t>(time.time_since_epoch().count()); }
Clock::time_point time_of(const Word& word) {
  return Clock::time_point(Clock::duration(static_cast<std::int64_t>(peek(word))));
}

std::vector<Activity> activities_in_calls(const OperationLog& log, const CommunicatorReport& report) {
  std::vector<Activity> activities = activities_of(log.records(), Clock::now().time_since_epoch());
  for (Activity& activity : activities) {
    if (!activity.is_wait()) activity.elsewhere = report.elsewhere();
  }
  return activities;
}

}  // namespace

StallWatch::StallWatch(const Self& self, CommunicatorReport& report, milliseconds warning)
    : StallWatch({self.name, self.rank, self.ranks, self.health, self.control,
                  [log = &self.log, report = &report] { return activities_in_calls(*log, *report); },
                  [report = &report](const std::string& text) { report->note_stall(text); }},
                 warning) {}

void StallWatch::start() {
  self_.control.set_survey_handlers({self_.activities,
                                     [this](int asker) {
                                       other_asker_ = asker;
                                       other_asked_ = Clock::now();
                                     },
                                     [this](const std::string& text, int blamed) { take_report(text, blamed); }});
}

void StallWatch::look(Stall& stall, Clock::time_point now) {
  if (warning_.count() == 0 || self_.ranks == 1) return;
  if (stall.since == Clock::time_point{}) stall = {now, now + ask_after(warning_, 0), 0};
  if (now < stall.next) return;
  if (time_of(last_report_) > stall.since + ask_after(warning_, stall.lines) * 3 / 4) {
    stall.next = stall.since + ask_after(warning_, ++stall.lines);
    return;
  }
  ask();
  stall.next = now + kAnswerTime;
}

void StallWatch::ask() {
  if (!claim(asking_, 0, 1)) return;  // with may_ask()
  const auto ready = std::chrono::ceil<milliseconds>(time_of(last_asked_) + kBetweenQuestions - Clock::now());
  const milliseconds turn = std::min(kMostStagger, kStagger * self_.rank);
  self_.control.survey(
      std::max(turn, ready), [this] { return may_ask(); }, [this](const Survey& survey) { conclude(survey); });
}

bool StallWatch::may_ask() {
  note(asking_, 0);
  if (self_.health.failed() || another_asks(self_.ranks)) return false;
  note(last_asked_, word_of(Clock::now()));
  return true;
}

bool StallWatch::another_asks(int below) const {
  return other_asker_ >= 0 && other_asker_ < below && Clock::now() - other_asked_ < kAnswerTime;
}

void StallWatch::conclude(const Survey& survey) {
  // Of two that asked at the same time, one speaks.
  if (self_.health.failed() || another_asks(self_.rank)) return;
  const StallReport report =
      explain_stall({self_.rank, self_.ranks, survey, [this](int rank) { return self_.control.describe(rank); }});
  if (fail_late(report.text, report.blamed) || warning_.count() == 0) return;
  const std::vector<Activity> own = self_.activities();
  const Activity* call = longest(own, warning_ / 4);
  if (call == nullptr || said_already(report.blamed)) return;  // it has got on meanwhile, or another rank was faster
  const std::string text = fmt::format("{} of \"{}\": {}", call->text, self_.name, report.text);
  keep(text);
  log_warn("{}", text);
  self_.control.report(text, report.blamed);
}

void StallWatch::take_report(const std::string& text, int blamed) {
  other_asker_ = -1;
  keep(text);
  if (fail_late(text, blamed) || warning_.count() == 0) return;
  const std::vector<Activity> own = self_.activities();
  if (longest(own, warning_ / 4) != nullptr && !said_already(blamed)) log_warn("{}", text);
}

// Notes that it is said now, otherwise.
bool StallWatch::said_already(int blamed) {
  const auto now = Clock::now();
  if (blamed >= 0 && blamed == said_blamed_ && now - said_at_ < kSameTime) return true;
  said_blamed_ = blamed;
  said_at_ = now;
  return false;
}

void StallWatch::keep(const std::string& text) {
  self_.note(text);
  note(last_report_, word_of(Clock::now()));
}

void StallWatch::time_out(const void* operation, const std::string& call, milliseconds limit) {
  if (self_.ranks == 1) {
    // There is nobody to ask.
    self_.health.fail(ErrorCode::kTimeout,
                      fmt::format("{} has not ended within {} ms: it waits for this rank itself", call, limit.count()));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    const bool known = std::ranges::any_of(late_, [=](const Late& late) { return late.operation == operation; });
    if (!known) late_.push_back({operation, call, limit});
  }
  ask();
}

void StallWatch::forget(const void* operation) {
  const std::lock_guard lock(mutex_);
  std::erase_if(late_, [=](const Late& late) { return late.operation == operation; });
}

bool StallWatch::fail_late(const std::string& why, int blamed) {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    if (late_.empty()) return false;
    reason = fmt::format("{} on {} has not ended within {} ms: {}", late_.front().call,
                         self_.control.describe(self_.rank), late_.front().limit.count(), why);
  }
  keep(reason);
  if (!self_.health.failed()) self_.control.poison_in_order(ErrorCode::kTimeout, reason, blamed);
  return true;
}

const Activity* StallWatch::longest(const std::vector<Activity>& activities, milliseconds at_least) {
  const Activity* longest = nullptr;
  for (const Activity& activity : activities) {
    if (!activity.is_wait() || activity.since_ms < at_least.count()) continue;
    if (longest == nullptr || activity.since_ms > longest->since_ms) longest = &activity;
  }
  return longest;
}

}  // namespace tutti
