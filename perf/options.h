#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/buffer_kind.h"
#include "tutti/types.h"

namespace tutti::perf {

enum class Average { kRankZero, kAverage, kMin, kMax };

// What the command line asks for: nccl-tests' flags and defaults, then ours.
struct Options {
  std::size_t min_bytes = 32u << 20;
  std::size_t max_bytes = 32u << 20;
  std::size_t step_bytes = 1u << 20;
  std::size_t step_factor = 1;  // more than 1: multiply instead of add
  int iterations = 20;
  int warmup_iterations = 1;
  int aggregated = 1;  // calls per iteration
  int run_cycles = 1;  // 0: for ever
  int checks = 1;      // check iterations before the measured ones; 0: nothing is checked
  int threads = 1;     // ranks in this process
  int unalign = 0;     // index of the first element
  int blocking = 0;    // 1: a barrier after every iteration
  int timeout_s = 0;   // 0: none
  int per_iteration_skip = 0;
  bool per_iteration = false;
  bool cpu_time = false;
  bool timestamps = false;
  bool memory = false;
  Average average = Average::kAverage;
  std::vector<ReduceOp::Kind> ops;
  std::vector<DataType> types;
  int root = 0;  // -1: all
  std::string json_file;

  bool touch = true;
  BufferKind buffers = BufferKind::kPrivate;
  int granule_bytes = 16;  // nccl-tests' number
  int single_calls = -1;   // -1: as many as fit in a tenth of a second
  std::string plot_file;

  // The size that follows `bytes` in the sweep.
  std::size_t next(std::size_t bytes) const { return step_factor > 1 ? bytes * step_factor : bytes + step_bytes; }
};

inline constexpr int kAllRoots = -1;
inline constexpr int kAutomatic = -1;

// The exit code when the program shall end at once: 0 after --help, which prints to stdout; 1 after a bad command line,
// which is explained on stderr. Otherwise -1 and `options` is complete.
int parse_options(int argc, const char* const* argv, Options& options);

}  // namespace tutti::perf
