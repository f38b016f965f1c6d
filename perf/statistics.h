#pragma once

#include <vector>

namespace tutti::perf {

// The nearest-rank percentile of unordered values, 0 < percent <= 100; 0 of none.
double percentile(std::vector<double> values, double percent);

struct Summary {
  double min = 0, max = 0, average = 0, p50 = 0, p95 = 0, p99 = 0, deviation = 0;
  // Standard deviation in percent of the average.
  double variation_percent() const { return average > 0 ? deviation / average * 100.0 : 0.0; }
};

Summary summarize(const std::vector<double>& values);

}  // namespace tutti::perf
