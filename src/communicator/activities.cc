#include "communicator/activities.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "communicator/communicator_report.h"

namespace tutti {
namespace {

using std::chrono::nanoseconds;
using Kind = OperationRecord::Kind;

constexpr std::size_t kMostTransfers = 3;

std::uint32_t milliseconds_of(nanoseconds time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ms, 0, Activity::kUnknownTime - 1));
}

// The log may not know when a short call was issued, but always how long it has waited.
std::uint32_t time_in(const OperationRecord& record, nanoseconds now) {
  const nanoseconds waited = record.waited;
  return milliseconds_of(record.issued.count() == 0 ? waited : std::max(waited, now - record.issued));
}

Activity activity_of(const OperationRecord& record, std::uint64_t called, nanoseconds now) {
  Activity activity;
  activity.kind = record.kind == Kind::kCollective ? Activity::Kind::kCollective
                  : record.kind == Kind::kSend     ? Activity::Kind::kSend
                                                   : Activity::Kind::kReceive;
  activity.begun = record.phase != Phase::kQueued;
  activity.called = called;
  if (activity.begun) activity.waits_for = record.kind == Kind::kCollective ? record.waited_for : record.peer;
  activity.since_ms = time_in(record, now);
  activity.text = describe(record);
  if (record.kind == Kind::kCollective) activity.text += fmt::format(" #{}", record.number);
  return activity;
}

}  // namespace

std::vector<Activity> activities_of(std::span<const OperationRecord> records, nanoseconds now) {
  const OperationRecord* running = nullptr;
  const OperationRecord* queued = nullptr;
  const OperationRecord* last = nullptr;  // that has begun
  std::vector<const OperationRecord*> transfers;
  for (const OperationRecord& record : records) {
    if (record.kind != Kind::kCollective) {
      if (!has_ended(record.phase)) transfers.push_back(&record);
    } else if (record.phase == Phase::kQueued) {
      if (queued == nullptr || record.number < queued->number) queued = &record;
    } else if (record.phase != Phase::kCancelled) {
      if (!has_ended(record.phase)) running = &record;
      if (last == nullptr || record.number > last->number) last = &record;
    }
  }
  std::vector<Activity> activities;
  const std::uint64_t called = last != nullptr ? last->number : 0;
  if (running != nullptr) {
    activities.push_back(activity_of(*running, running->number, now));
  } else if (queued != nullptr) {
    activities.push_back(activity_of(*queued, called, now));
  }
  std::ranges::stable_sort(transfers,
                           [&](const auto* a, const auto* b) { return time_in(*a, now) > time_in(*b, now); });
  transfers.resize(std::min(transfers.size(), kMostTransfers));
  for (const OperationRecord* transfer : transfers) activities.push_back(activity_of(*transfer, called, now));
  if (!activities.empty()) return activities;
  Activity idle;
  idle.called = called;
  if (last != nullptr) {
    const nanoseconds end = last->ended.count() != 0 ? last->ended : last->issued;
    if (end.count() != 0) idle.since_ms = milliseconds_of(now - end);
  }
  return {idle};
}

}  // namespace tutti
