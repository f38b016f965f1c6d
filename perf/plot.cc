#include "perf/plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "perf/chart.h"
#include "perf/names.h"

namespace tutti::perf {
namespace {

std::string label(const Row& row, bool in_place) {
  std::string text = nccl_name(row.type);
  if (row.op != "none") text += " " + row.op;
  if (row.root >= 0) text += fmt::format(" root {}", row.root);
  return text + (in_place ? " in-place" : " out-of-place");
}

void add_point(std::vector<Series>& series, const Row& row, bool in_place, double value) {
  const std::string name = label(row, in_place);
  auto found = std::find_if(series.begin(), series.end(), [&](const Series& one) { return one.name == name; });
  if (found == series.end()) found = series.insert(series.end(), {name, {}, in_place});
  found->points.push_back({static_cast<double>(row.bytes), value});
}

}  // namespace

std::string plot(const std::string& title, const std::vector<Row>& rows) {
  std::vector<Series> times, bandwidths;
  bool single = !rows.empty();
  for (const Row& row : rows) single = single && !row.out_of_place.single_calls.empty();
  for (const Row& row : rows) {
    for (const bool in_place : {false, true}) {
      const Mode& mode = in_place ? row.in_place : row.out_of_place;
      add_point(times, row, in_place, single ? percentile(mode.single_calls, 50) : mode.time);
      add_point(bandwidths, row, in_place, mode.bus_bandwidth);
    }
  }
  constexpr double kWidth = 560, kHeight = 460;
  Svg svg(2 * kWidth, kHeight);
  svg.rectangle({0, 0}, 2 * kWidth, kHeight, "#fff");
  const Axis size{"size (B)", Unit::kBytes};
  draw_log_chart(svg, {0, 0}, kWidth, kHeight, title + (single ? ": single call, median" : ": time"), size,
                 {"time (us)"}, times);
  draw_log_chart(svg, {kWidth, 0}, kWidth, kHeight, title + ": bus bandwidth", size, {"bus bandwidth (GB/s)"},
                 bandwidths);
  return svg.str();
}

}  // namespace tutti::perf
