#include "perf/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "perf/buffer.h"
#include "perf/measurement.h"
#include "perf/names.h"

namespace tutti::perf {
namespace {

std::string plan_text(const Rank& rank, const Collective& collective, std::size_t count, DataType type,
                      ReduceOp::Kind op) {
  if (collective.plan_name != nullptr) return rank.measured.plan(collective.plan_name, count, type, op);
  const std::string other = rank.measured.plan("all_gather", count, type);  // the transports are the same
  return "point_to_point" + other.substr(std::min(other.find(' '), other.size()));
}

class Sweep {
 public:
  Sweep(const Collective& collective, const Options& options, Rank& rank, Report* report)
      : collective_(collective),
        options_(options),
        rank_(rank),
        report_(report),
        input_(options.buffers, options.max_bytes, shift(options)),
        output_(options.buffers, options.max_bytes, shift(options)) {}

  Totals run() {
    for (int cycle = 0; options_.run_cycles == 0 || cycle < options_.run_cycles; ++cycle) {
      if (report_ != nullptr) report_->begin_cycle();
      for (const DataType type : options_.types) one_type(type);
    }
    return totals_;
  }

 private:
  // Room for the widest element, so that one pair of buffers serves all types.
  static std::size_t shift(const Options& options) { return static_cast<std::size_t>(options.unalign) * 8; }

  void one_type(DataType type) {
    if (!collective_.reduces) return one_operation(type, ReduceOp::Kind::kMax);
    for (const ReduceOp::Kind op : options_.ops) {
      if (supports(op, type)) one_operation(type, op);
    }
  }

  void one_operation(DataType type, ReduceOp::Kind op) {
    Data data(type, op, collective_.reduces, rank_.rank, rank_.ranks);
    const bool all = options_.root == kAllRoots;
    if (!collective_.rooted) return sizes({collective_, options_, type, op, 0}, data);
    for (int root = all ? 0 : options_.root; root <= (all ? rank_.ranks - 1 : options_.root); ++root) {
      sizes({collective_, options_, type, op, root}, data);
    }
  }

  void sizes(const Subject& subject, Data& data) {
    for (std::size_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes = options_.next(bytes)) {
      one_size(subject, bytes, data);
    }
  }

  void one_size(const Subject& subject, std::size_t bytes, Data& data) {
    const std::size_t width = element_size(subject.type);
    const std::size_t granule = std::max<std::size_t>(static_cast<std::size_t>(options_.granule_bytes) / width, 1);
    const Shape shape = collective_.shape(bytes / width, rank_.ranks, granule);
    Row row;
    row.bytes = std::max(shape.send, shape.recv) * width;
    row.count = shape.count;
    row.type = subject.type;
    row.op = collective_.reduces ? name(ReduceOp(subject.op)) : "none";
    row.root = collective_.rooted ? subject.root : -1;
    if (report_ != nullptr) {
      row.plan = plan_text(rank_, collective_, shape.count, subject.type, subject.op);
      report_->begin_row(row);
    }
    for (const bool in_place : {false, true}) {
      rank_.slot.describe(
          rank_.rank, fmt::format("{} of {} B, {} {} root {}, {}", collective_.title, row.bytes, nccl_name(row.type),
                                  row.op, row.root, in_place ? "in-place" : "out-of-place"));
      Mode& mode = in_place ? row.in_place : row.out_of_place;
      mode = Measurement(subject, shape, in_place, rank_, data, input_, output_).run();
      totals_.add(mode);
      if (report_ != nullptr) report_->mode(mode, in_place);
    }
    if (report_ != nullptr) report_->end_row(std::move(row));
  }

  const Collective& collective_;
  const Options& options_;
  Rank& rank_;
  Report* report_;
  Buffer input_;
  Buffer output_;
  Totals totals_;
};

}  // namespace

Totals sweep(const Collective& collective, const Options& options, Rank& rank, Report* report) {
  return Sweep(collective, options, rank, report).run();
}

}  // namespace tutti::perf
