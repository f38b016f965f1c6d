#pragma once

#include "perf/collective.h"
#include "perf/job.h"
#include "perf/options.h"
#include "perf/report.h"

namespace tutti::perf {

// All types, operations, roots and sizes that the options ask for, on one rank; `report` is rank 0's, null elsewhere.
// Returns what the whole run found, the same on all ranks.
Totals sweep(const Collective& collective, const Options& options, Rank& rank, Report* report);

}  // namespace tutti::perf
