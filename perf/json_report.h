#pragma once

#include <string>
#include <vector>

#include "perf/options.h"
#include "perf/results.h"

namespace tutti::perf {

// What a whole run looks like as JSON: nccl-tests' keys and spellings (booleans and roots are strings there), and
// beside them time_p05, time_p50, time_p99, single_calls, algorithm and transport.
struct JsonReport {
  const Options& options;
  std::vector<std::string> arguments;
  std::string start_time;
  std::string end_time;
  std::vector<RankInfo> ranks;
  std::vector<Row> rows;
  Totals totals;
  double min_bandwidth = -1;  // < 0: not asked for
};

std::string to_json(const JsonReport& report);

// Creates a file that was not there: the path, or the path with .0, .1 … behind it. Returns its name, or "" and the
// reason in `error`.
std::string create_new_file(const std::string& path, std::string& error);

}  // namespace tutti::perf
