#pragma once

#include <string>
#include <vector>

#include "perf/collective.h"
#include "perf/options.h"
#include "perf/results.h"
#include "perf/table.h"

namespace tutti::perf {

// Everything that a run leaves behind: the table on stdout, the JSON file, the picture. Rank 0's.
class Report {
 public:
  // Creates the JSON file, so that a path that cannot be written is known before the run.
  Report(const Collective& collective, const Options& options, std::vector<std::string> arguments,
         double min_bandwidth);

  void starting(std::vector<RankInfo> ranks, std::size_t wanted_max_bytes);
  void begin_cycle() { rows_.clear(); }
  void begin_row(const Row& row) { table_.begin_row(row); }
  void mode(const Mode& mode, bool in_place) { table_.mode(mode, in_place); }
  void end_row(Row row);
  void concluded(const Totals& totals, std::size_t buffer_bytes);

 private:
  std::vector<std::string> notices() const;

  const Collective& collective_;
  const Options& options_;
  std::vector<std::string> arguments_;
  double min_bandwidth_;
  std::string start_time_;
  std::string json_file_;  // "" where none is written
  Table table_;
  std::vector<RankInfo> ranks_;
  std::vector<Row> rows_;  // of the cycle under way
};

}  // namespace tutti::perf
