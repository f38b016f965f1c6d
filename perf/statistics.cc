#include "perf/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tutti::perf {

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0.0;
  const double rank = std::ceil(percent / 100.0 * static_cast<double>(values.size()));
  const auto nth = values.begin() + std::max<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(rank) - 1, 0);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

Summary summarize(const std::vector<double>& values) {
  if (values.empty()) return {};
  Summary summary;
  const double count = static_cast<double>(values.size());
  summary.min = *std::min_element(values.begin(), values.end());
  summary.max = *std::max_element(values.begin(), values.end());
  summary.average = std::accumulate(values.begin(), values.end(), 0.0) / count;
  summary.p50 = percentile(values, 50);
  summary.p95 = percentile(values, 95);
  summary.p99 = percentile(values, 99);
  double squares = 0;
  for (const double value : values) squares += (value - summary.average) * (value - summary.average);
  summary.deviation = std::sqrt(squares / count);
  return summary;
}

}  // namespace tutti::perf
