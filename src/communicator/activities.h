#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "bootstrap/findings.h"
#include "executor/operation_log.h"

namespace tutti {

// What a rank does, as its log of operations shows: the collective that is under way or waits for its turn, some of the
// sends and receives that have waited longest; nothing of that: it is idle. `now`: of the monotonic clock. Allocates.
std::vector<Activity> activities_of(std::span<const OperationRecord> records, std::chrono::nanoseconds now);

}  // namespace tutti
