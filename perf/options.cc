#include "perf/options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <stdexcept>

#include "perf/names.h"
#include "tutti/version.h"

namespace tutti::perf {
namespace {

// nccl-tests' flags that only a GPU gives a meaning. Their harmless values are accepted, so that scripts run unchanged.
struct GpuFlag {
  const char* names;
  int harmless;
  int value;
};

void check_ranges(const Options& options) {
  if (options.min_bytes > options.max_bytes) {
    throw CLI::ValidationError("-b", "the smallest size is larger than the largest: pass -e too");
  }
  if (options.step_factor <= 1 && options.step_bytes == 0) {
    throw CLI::ValidationError("-i", "a step of 0 bytes never arrives; give -i a size or -f a factor of 2 or more");
  }
}

void parse_root(const std::string& text, Options& options) {
  if (text == "all") {
    options.root = kAllRoots;
    return;
  }
  try {
    std::size_t used = 0;
    options.root = std::stoi(text, &used);
    if (used == text.size() && options.root >= 0) return;
  } catch (const std::logic_error&) {
  }
  throw CLI::ValidationError("-r", "'" + text + "' is no root; write a rank or all");
}

// CLI11's own validators name the smallest and the largest number of the type, which has hundreds of digits.
CLI::Validator at_least(int least) {
  return CLI::Validator(
      [least](const std::string& text) {
        int value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= least) return std::string();
        return "must be a whole number from " + std::to_string(least) + " on, not \"" + text + "\"";
      },
      "");
}

}  // namespace

int parse_options(int argc, const char* const* argv, Options& options) {
  CLI::App app(
      "Measures and checks a collective. Flags and output are those of nccl-tests, where a GPU is not needed.");
  std::string min_bytes = "32M", max_bytes = "32M", step_bytes = "1M", op = "sum", type = "float", root = "0";
  std::string buffers = "private";
  int average = 1;
  int parallel_init = 0;
  GpuFlag gpu_flags[] = {{"-g,--ngpus", 1, 1},
                         {"-G,--cudagraph", 0, 0},
                         {"-R,--local_register", 0, 0},
                         {"-x,--cta_policy", -1, -1},
                         {"-y,--stream_null", 0, 0},
                         {"-D,--device_implementation", 0, 0},
                         {"-V,--device_cta_count", 16, 16}};

  app.set_version_flag("--version", std::string("tutti ") + std::to_string(TUTTI_VERSION_MAJOR) + "." +
                                        std::to_string(TUTTI_VERSION_MINOR) + "." +
                                        std::to_string(TUTTI_VERSION_PATCH));
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as getopt
  app.add_option("-b,--minbytes", min_bytes, "smallest size (32M)");
  app.add_option("-e,--maxbytes", max_bytes, "largest size (32M)");
  app.add_option("-i,--stepbytes", step_bytes, "step between sizes (1M)");
  app.add_option("-f,--stepfactor", options.step_factor, "factor between sizes instead of a step (off)");
  app.add_option("-n,--iters", options.iterations, "iterations (20)")->check(at_least(1));
  app.add_option("-w,--warmup_iters", options.warmup_iterations, "iterations before them (1)")->check(at_least(0));
  app.add_option("-m,--agg_iters", options.aggregated, "calls in one iteration (1)")->check(at_least(1));
  app.add_option("-N,--run_cycles", options.run_cycles, "times the table is run, 0 for ever (1)")->check(at_least(0));
  app.add_option("-c,--check", options.checks, "check iterations before the measured ones, 0 checks nothing (1)")
      ->check(at_least(0));
  app.add_option("-o,--op", op, "sum prod min max avg mulsum, band bor bxor, or all (sum)");
  app.add_option("-d,--datatype", type, "int8 uint8 int16 … half bfloat16 float double f8e4m3 f8e5m2, or all (float)");
  app.add_option("-r,--root", root, "root rank, or all (0)");
  app.add_option("-z,--blocking", options.blocking, "1: barrier after each iteration (0)")->check(CLI::Range(0, 3));
  app.add_option("-T,--timeout", options.timeout_s, "end when a call takes longer than this many seconds (off)")
      ->check(at_least(0));
  app.add_option("-C,--report_cputime", options.cpu_time, "CPU time of the calling thread instead of time (0)");
  app.add_option("-S,--report_timestamps", options.timestamps, "a column with the time of day (0)");
  app.add_option("-J,--output_file", options.json_file, "write the results as JSON too");
  app.add_option("-a,--average", average, "time reported: 0 rank 0, 1 average, 2 min, 3 max over ranks (1)")
      ->check(CLI::Range(0, 3));
  app.add_option("-M,--memory", options.memory, "report memory (0)");
  app.add_option("-u,--unalign", options.unalign, "index of the first element in its buffer (0)")
      ->check(CLI::Range(0, 4096));
  app.add_option("-I,--per_iter_timing", options.per_iteration, "columns with the spread of the iterations (0)");
  app.add_option("-K,--per_iter_skip", options.per_iteration_skip, "iterations that these columns leave out (0)")
      ->check(at_least(0));
  app.add_option("-t,--nthreads", options.threads, "ranks in this process, as threads (1)")->check(CLI::Range(1, 4096));
  app.add_option("-p,--parallel_init", parallel_init, "no effect: ranks of a process always start together");
  app.add_option("--touch", options.touch, "rewrite inputs and read outputs between calls, outside the clock (1)");
  app.add_option("--buffers", buffers, "private, library: memory from tutti::allocate, or registered (private)")
      ->check(CLI::IsMember({"private", "library", "registered"}));
  app.add_option("--single", options.single_calls, "single calls that are timed apart, 0 none (what 0.1 s gives)")
      ->check(at_least(0));
  app.add_option("--granule", options.granule_bytes, "divided buffers are rounded to blocks of so many bytes (16)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--plot", options.plot_file, "draw time and bus bandwidth against size, as SVG");
  for (GpuFlag& flag : gpu_flags) app.add_option(flag.names, flag.value)->group("");  // not in the help

  try {
    app.parse(argc, argv);
    for (const GpuFlag& flag : gpu_flags) {
      if (flag.value == flag.harmless) continue;
      throw CLI::ValidationError(flag.names, "needs a GPU, and these programs run on host memory: leave it out");
    }
    options.min_bytes = parse_bytes(min_bytes);
    options.max_bytes = parse_bytes(max_bytes);
    options.step_bytes = parse_bytes(step_bytes);
    options.ops = parse_ops(op);
    options.types = parse_types(type);
    options.average = static_cast<Average>(average);
    for (const BufferKind kind : {BufferKind::kLibrary, BufferKind::kRegistered}) {
      if (buffers == name(kind)) options.buffers = kind;
    }
    parse_root(root, options);
    check_ranges(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  } catch (const std::invalid_argument& error) {
    return app.exit(CLI::ValidationError(error.what())) == 0 ? 0 : 1;
  }
  return -1;
}

}  // namespace tutti::perf
