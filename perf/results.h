#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "perf/data.h"
#include "perf/statistics.h"

namespace tutti::perf {

// One size, in place or not, over all ranks. Times in microseconds, bandwidths in GB/s (10^9 bytes).
struct Mode {
  double time = 0;  // of a call, calls back to back, ranks combined as -a says
  double algorithm_bandwidth = 0;
  double bus_bandwidth = 0;
  std::optional<double> wrong;       // elements on all ranks; none: not checked
  std::vector<double> iterations;    // -I: every iteration, the slowest rank's time
  std::vector<double> single_calls;  // every single call, the slowest rank's time
  std::vector<Mismatch> mismatches;  // the first few of each rank
};

struct Row {
  std::size_t bytes = 0;
  std::size_t count = 0;
  DataType type = DataType::kF32;
  std::string op;  // "none" where nothing is reduced
  int root = -1;
  std::string plan;  // "two_shot over shm"
  Mode out_of_place;
  Mode in_place;
};

struct RankInfo {
  int rank = 0;
  int pid = 0;
  int device = 0;  // index of the rank in its process
  std::string host;
};

struct Totals {
  double wrong = 0;
  double bandwidth_sum = 0;
  std::size_t modes = 0;

  void add(const Mode& mode) {
    wrong += mode.wrong.value_or(0);
    bandwidth_sum += mode.bus_bandwidth;
    ++modes;
  }
  double average_bandwidth() const { return modes == 0 ? 0.0 : bandwidth_sum / static_cast<double>(modes); }
};

}  // namespace tutti::perf
