#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "perf/options.h"
#include "perf/results.h"

namespace tutti::perf {

// nccl-tests' output, byte for byte where its parsers look, with what it lacks in lines that begin with '#'. Written
// by rank 0 as the sweep goes on. Does not own the stream.
class Table {
 public:
  Table(std::FILE* out, const Options& options, std::string program);

  void starting(const std::vector<std::string>& notices, const std::vector<RankInfo>& ranks);
  void line(const std::string& text);  // "# text"
  void column_heads();

  // A row appears piece by piece, so that a hang shows where it happened.
  void begin_row(const Row& row);
  void mode(const Mode& mode, bool in_place);
  void end_row(const Row& row);

  // Percentiles of single calls, and who computed them.
  void single_calls(const std::vector<Row>& rows);
  // min_bandwidth < 0: not asked for. memory: empty or one line.
  void concluded(const std::vector<Row>& rows, const Totals& totals, double min_bandwidth, const std::string& memory);

 private:
  void peaks(const std::vector<Row>& rows);

  std::FILE* out_;
  const Options& options_;
  std::string program_;
};

// The share of NCCL_TESTS_MIN_BW that the average must reach.
inline constexpr double kMinBandwidthShare = 0.9;

}  // namespace tutti::perf
