#include "perf/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "perf/format.h"
#include "perf/names.h"

namespace tutti::perf {
namespace {

std::string single_text(const Mode& mode) {
  if (mode.single_calls.empty()) return fmt::format("  {:>7}  {:>7}  {:>7}", "-", "-", "-");
  std::string text;
  for (const double percent : {5.0, 50.0, 99.0}) text += "  " + fit(percentile(mode.single_calls, percent), 7);
  return text;
}

}  // namespace

Table::Table(std::FILE* out, const Options& options, std::string program)
    : out_(out), options_(options), program_(std::move(program)) {}

void Table::starting(const std::vector<std::string>& notices, const std::vector<RankInfo>& ranks) {
  const Options& o = options_;
  fmt::print(out_, "# tutti-tests version {} tutti-headers={} tutti-library={}\n", TUTTI_PERF_VERSION,
             TUTTI_PERF_VERSION_CODE, TUTTI_PERF_VERSION_CODE);
  fmt::print(out_, "# Collective test starting: {}\n", program_);
  fmt::print(out_,
             "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} "
             "validation: {} graph: {} unalign: {}\n",
             o.threads, 1, o.min_bytes, o.max_bytes, o.step_factor > 1 ? o.step_factor : o.step_bytes,
             o.step_factor > 1 ? "factor" : "bytes", o.warmup_iterations, o.iterations, o.aggregated, o.checks, 0,
             o.unalign);
  for (const std::string& notice : notices) line(notice);
  fmt::print(out_, "#\n# Using devices\n");
  for (const RankInfo& rank : ranks) {
    fmt::print(out_, "#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [0000:00:00] cpu\n", rank.rank, 0,
               rank.pid, rank.host, rank.device);
  }
  std::fflush(out_);
}

void Table::line(const std::string& text) { fmt::print(out_, "# {}\n", text); }

void Table::column_heads() {
  const char* time = options_.cpu_time ? "cputime" : "time";
  const int pad = options_.timestamps ? 19 : 0;
  const char* stamp = options_.timestamps ? "timestamp" : "";
  const char* stamp_format = options_.timestamps ? "YYYY-MM-DD HH:MM:SS" : "";
  const auto heads = [&](std::vector<const char*> left, std::vector<const char*> mode, const char* last) {
    fmt::print(out_, "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", left[0], left[1], left[2], left[3], left[4]);
    for (int i = 0; i < 2; ++i) {
      fmt::print(out_, "  {:>7}  {:>6}  {:>6}  {:>6}", mode[0], mode[1], mode[2], mode[3]);
      if (options_.per_iteration) {
        fmt::print(out_, "  {:>7}  {:>7}  {:>7}  {:>7}", mode[4], mode[5], mode[6], mode[7]);
      }
    }
    fmt::print(out_, " {:>{}}\n", last, pad);
  };
  fmt::print(out_, "#\n");
  fmt::print(out_, "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}\n", "", "", "", "", "",
             options_.per_iteration
                 ? "              out-of-place (+ per-iteration)                                in-place (+ "
                   "per-iteration)"
                 : "           out-of-place                       in-place          ");
  heads({"size", "count", "type", "redop", "root"},
        {time, "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"}, stamp);
  heads({"(B)", "(elements)", "", "", ""}, {"(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(%)"},
        stamp_format);
  std::fflush(out_);
}

void Table::begin_row(const Row& row) {
  fmt::print(out_, "{:12}  {:12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count, nccl_name(row.type), row.op, row.root);
  std::fflush(out_);
}

void Table::mode(const Mode& mode, bool in_place) {
  fmt::print(out_, "  {}  {}  {}", fit(mode.time, 7), fit(mode.algorithm_bandwidth, 6), fit(mode.bus_bandwidth, 6));
  if (mode.wrong) {
    fmt::print(out_, "  {:6g}", *mode.wrong);
  } else {
    fmt::print(out_, "    N/A");
  }
  if (options_.per_iteration) {
    const Summary summary = summarize(mode.iterations);
    fmt::print(out_, "  {}  {}  {}  {}", fit(summary.min, 7), fit(summary.max, 7), fit(summary.p99, 7),
               fit(summary.variation_percent(), 7));
  }
  if (in_place && options_.timestamps) fmt::print(out_, "{:>21}", now_text());
  std::fflush(out_);
}

void Table::end_row(const Row& row) {
  fmt::print(out_, "\n");
  for (const Mode* mode : {&row.out_of_place, &row.in_place}) {
    for (const Mismatch& mismatch : mode->mismatches) {
      line(fmt::format("wrong, {}: {}", mode == &row.in_place ? "in-place" : "out-of-place",
                       describe(mismatch, row.type)));
    }
  }
  std::fflush(out_);
}

void Table::single_calls(const std::vector<Row>& rows) {
  line("");
  line(fmt::format("Single calls, us: {}a barrier, one call, the slowest rank's time",
                   options_.touch ? "every rank touches its buffers, " : ""));
  line(fmt::format("{:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:^25}  {:^25}", "", "", "", "", "", "out-of-place",
                   "in-place"));
  line(fmt::format("{:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {:>5}  algorithm",
                   "size", "count", "type", "redop", "root", "p05", "p50", "p99", "p05", "p50", "p99", "calls"));
  for (const Row& row : rows) {
    line(fmt::format("{:10}  {:12}  {:>8}  {:>6}  {:>6}{}{}  {:5}  {}", row.bytes, row.count, nccl_name(row.type),
                     row.op, row.root, single_text(row.out_of_place), single_text(row.in_place),
                     row.out_of_place.single_calls.size(), row.plan));
  }
  line("");
}

void Table::peaks(const std::vector<Row>& rows) {
  double peak = 0;
  std::size_t at = 0;
  for (const Row& row : rows) {
    if (row.out_of_place.bus_bandwidth <= peak) continue;
    peak = row.out_of_place.bus_bandwidth;
    at = row.bytes;
  }
  const auto half = std::find_if(rows.begin(), rows.end(),
                                 [&](const Row& row) { return row.out_of_place.bus_bandwidth >= peak / 2; });
  if (peak == 0 || half == rows.end()) return;
  line(fmt::format("{:<20} : {:g} at {} B, half of it from {} B", "Peak bus bandwidth", peak, at, half->bytes));
}

void Table::concluded(const std::vector<Row>& rows, const Totals& totals, double min_bandwidth,
                      const std::string& memory) {
  const double average = totals.average_bandwidth();
  line(fmt::format("{:<20} : {:.0f} {}", "Out of bounds values", totals.wrong, totals.wrong > 0 ? "FAILED" : "OK"));
  line(fmt::format("{:<20} : {:g} {}", "Avg bus bandwidth", average,
                   min_bandwidth < 0                              ? ""
                   : average < kMinBandwidthShare * min_bandwidth ? "FAILED"
                                                                  : "OK"));
  peaks(rows);
  fmt::print(out_, "#\n");
  line("Collective test concluded: " + program_);
  if (!memory.empty()) line(fmt::format("{:<20} : {}", "Memory usage", memory));
  fmt::print(out_, "#\n\n");
  std::fflush(out_);
}

}  // namespace tutti::perf
