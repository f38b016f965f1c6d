#pragma once

#include <functional>

#include "perf/meter.h"
#include "perf/watchdog.h"
#include "tutti/communicator.h"

namespace tutti::perf {

// One rank of the run, used by one thread.
struct Rank {
  int rank;
  int ranks;
  int index;  // among the ranks of this process
  Communicator measured;
  Meter meter;
  Watchdog::Slot& slot;
  bool shares_clock = false;  // all ranks are on one host, with a processor for each: they can begin at one moment
};

// Starts the ranks of this process: one, or `threads` as threads; alone, or beside the other processes that a launcher
// started. Rank p·threads + t is thread t of process p. Runs `body` on each and returns the largest result. An
// exception out of `body` or out of the meeting ends the process with kExitFailed and its text on stderr: the other
// ranks could only wait for this one.
int run_ranks(int threads, Watchdog& watchdog, const std::function<int(Rank&)>& body);

inline constexpr int kExitFailed = 3;

}  // namespace tutti::perf
