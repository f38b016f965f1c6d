#include "perf/report.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <fstream>

#include "perf/format.h"
#include "perf/json_report.h"
#include "perf/machine.h"
#include "perf/plot.h"

namespace tutti::perf {
namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void write_file(const std::string& path, const std::string& text, Table& table) {
  // A limit on the size of files (ulimit -f) is told below; the measurements have been printed.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  std::ofstream file(path);
  file << text;
  file.close();
  std::signal(SIGXFSZ, before);
  if (!file) table.line("could not write " + path);
}

}  // namespace

Report::Report(const Collective& collective, const Options& options, std::vector<std::string> arguments,
               double min_bandwidth)
    : collective_(collective),
      options_(options),
      arguments_(std::move(arguments)),
      min_bandwidth_(min_bandwidth),
      start_time_(now_text()),
      table_(stdout, options, base_name(arguments_.at(0))) {
  if (options.json_file.empty()) return;
  std::string error;
  json_file_ = create_new_file(options.json_file, error);
  table_.line(json_file_.empty() ? fmt::format("skipping json output; {}: {}", options.json_file, error)
                                 : "Writing JSON output to " + json_file_);
}

std::vector<std::string> Report::notices() const {
  std::vector<std::string> notices;
  if (options_.blocking == 1)
    notices.push_back("Blocking Enabled: wait for completion and barrier after each collective ");
  if (options_.blocking > 1)
    notices.push_back("Blocking Enabled: wait for completion after each collective (no barrier) ");
  if (options_.per_iteration) notices.push_back("Per-Iteration Report: i_* uses the slowest rank of every iteration ");
  if (options_.touch) {
    notices.push_back(
        "Buffers are touched between calls, outside the clock: every rank rewrites its input and reads its output");
  } else {
    notices.push_back(
        "WARNING: buffers are not touched between calls (--touch 0): times are those of warm caches, which no "
        "program sees");
  }
  if (options_.buffers == BufferKind::kLibrary) notices.push_back("Buffers come from the library's allocator");
  if (options_.buffers == BufferKind::kRegistered) notices.push_back("Buffers are registered memory");
  if (collective_.note != nullptr) notices.push_back(collective_.note);
  return notices;
}

void Report::starting(std::vector<RankInfo> ranks, std::size_t wanted_max_bytes) {
  ranks_ = std::move(ranks);
  table_.starting(notices(), ranks_);
  if (options_.max_bytes < wanted_max_bytes) {
    table_.line(fmt::format("Reducing maxBytes to {} due to memory limitation", options_.max_bytes));
  }
  table_.column_heads();
}

void Report::end_row(Row row) {
  table_.end_row(row);
  rows_.push_back(std::move(row));
}

void Report::concluded(const Totals& totals, std::size_t buffer_bytes) {
  if (options_.single_calls != 0) table_.single_calls(rows_);
  std::string memory;
  if (options_.memory) {
    const std::size_t peak = peak_memory();
    memory = fmt::format("Buffers {} | Rest {} | Total {}", memory_text(static_cast<double>(buffer_bytes)),
                         memory_text(static_cast<double>(peak) - static_cast<double>(buffer_bytes)),
                         memory_text(static_cast<double>(peak)));
  }
  table_.concluded(rows_, totals, min_bandwidth_, memory);
  if (!json_file_.empty()) {
    write_file(json_file_,
               to_json({options_, arguments_, start_time_, now_text(), ranks_, rows_, totals, min_bandwidth_}), table_);
  }
  if (!options_.plot_file.empty()) write_file(options_.plot_file, plot(base_name(arguments_.at(0)), rows_), table_);
}

}  // namespace tutti::perf
