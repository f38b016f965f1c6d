// How fast reductions are, by type, operation and number of sources, beside a pass that reads and writes as many
// streams and computes next to nothing: in turn, in one thread, on buffers of their own.
//   reductions [--type T] [--op O] [--sources N,N…] [--bytes B,B…] [--stores S] [--every-node]
// One line for each type, operation and number of sources. For each size (of all sources and the result together):
// GB/s, read and written, and which share of the copy's speed that is; 5th percentiles of the times of batches.

#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/sync.h"
#include "benchmarks/command_line.h"
#include "benchmarks/streams.h"
#include "perf/names.h"
#include "perf/number.h"
#include "perf/statistics.h"
#include "reduce/reduce.h"

namespace tutti::benchmark {
namespace {

constexpr double kBatchSeconds = 20e-6;
constexpr double kCellSeconds = 6e-3;  // of the copy and of the reduction, for one number of the table
constexpr int kLeastBatches = 5;
constexpr std::size_t kGranule = 64;  // sources are multiples of it long
constexpr double kFactor = 3;         // of mulsum

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Choice {
  std::vector<DataType> types;
  std::vector<ReduceOp::Kind> ops;
  std::vector<int> sources;
  std::vector<std::size_t> bytes;
  StoreKind stores = StoreKind::kOrdinary;
  bool every_node = false;
};

struct Unmap {
  std::size_t bytes;
  void operator()(std::uint8_t* memory) const { ::munmap(memory, bytes); }
};
using Pages = std::unique_ptr<std::uint8_t, Unmap>;

Pages allocate(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return Pages(static_cast<std::uint8_t*>(memory), Unmap{bytes});
}

// Sources and a result, as long as the largest case needs; each begins on a page.
class Buffers {
 public:
  explicit Buffers(std::size_t bytes) : bytes_(bytes) {
    for (int i = 0; i <= kMaxStreams; ++i) streams_.push_back(allocate(bytes));
  }

  // Values between 1/2 and 2, whole numbers below 100 for integers: no sum or product is unusual.
  void fill(DataType type) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> value(0.5, 2);
    const std::size_t size = element_size(type);
    std::uint8_t pattern[4096];
    for (std::size_t at = 0; at < sizeof pattern; at += size) {
      perf::store(perf::encode(is_floating(type) ? value(random) : value(random) * 50, type), pattern + at, type);
    }
    for (const Pages& stream : streams_) {
      for (std::size_t at = 0; at < bytes_; at += sizeof pattern) {
        std::copy_n(pattern, std::min(sizeof pattern, bytes_ - at), stream.get() + at);
      }
    }
  }

  const std::uint8_t* source(int index) const { return streams_[static_cast<std::size_t>(index) + 1].get(); }
  std::uint8_t* result() const { return streams_[0].get(); }

 private:
  const std::size_t bytes_;
  std::vector<Pages> streams_;
};

struct Cell {
  double bytes_per_second;
  double of_copy;
};

std::size_t source_bytes(std::size_t all, int sources) {
  return std::max(all / static_cast<std::size_t>(sources + 1) / kGranule, std::size_t{1}) * kGranule;
}

ReduceOp operation(ReduceOp::Kind kind) {
  return kind == ReduceOp::Kind::kPreMulSum ? ReduceOp::pre_mul_sum(kFactor) : ReduceOp(kind);
}

Cell measure(const Buffers& buffers, const Reduction& reduction, int sources, std::size_t all_bytes, StoreKind stores) {
  const std::size_t bytes = source_bytes(all_bytes, sources);
  const std::size_t elements = bytes / element_size(reduction.type);
  const std::uint8_t* streams[kMaxStreams];
  const void* pointers[kMaxStreams];
  for (int s = 0; s < sources; ++s) pointers[s] = streams[s] = buffers.source(s);
  const int mapped = first_changes(reduction.op) ? 0 : -1;
  const auto copy = [&] { merge_streams(sources, stores == StoreKind::kStreaming, streams, buffers.result(), bytes); };
  const auto reduce_once = [&] {
    reduce(reduction, pointers, sources, mapped, buffers.result(), nullptr, elements, stores);
    finish_streaming_stores();
  };
  // Seconds a pass.
  const auto batch = [](int passes, const auto& pass) {
    const auto begin = Clock::now();
    for (int i = 0; i < passes; ++i) pass();
    return seconds_since(begin) / passes;
  };
  const auto passes_of = [&](const auto& pass) {
    batch(2, pass);
    return std::max(static_cast<int>(kBatchSeconds / batch(2, pass)), 1);
  };
  const int copies = passes_of(copy);
  const int reductions = passes_of(reduce_once);
  std::vector<double> copy_times, reduction_times;
  const auto begin = Clock::now();
  while (copy_times.size() < kLeastBatches || seconds_since(begin) < kCellSeconds) {
    copy_times.push_back(batch(copies, copy));
    reduction_times.push_back(batch(reductions, reduce_once));
  }
  const double time = perf::percentile(reduction_times, 5);
  return {static_cast<double>(bytes) * (sources + 1) / time, perf::percentile(copy_times, 5) / time};
}

void print_table(const Choice& choice) {
  const std::size_t largest = *std::max_element(choice.bytes.begin(), choice.bytes.end());
  const int fewest = *std::min_element(choice.sources.begin(), choice.sources.end());
  Buffers buffers(source_bytes(largest, fewest));
  std::printf("%-8s %-6s %7s", "type", "op", "sources");
  for (const std::size_t bytes : choice.bytes) std::printf(" %12zu B: GB/s of copy", bytes);
  std::printf("\n");
  for (const DataType type : choice.types) {
    buffers.fill(type);
    for (const ReduceOp::Kind kind : choice.ops) {
      if (!supports(kind, type)) continue;
      for (const int sources : choice.sources) {
        const Reduction reduction{type, operation(kind), sources, kind == ReduceOp::Kind::kAvg, choice.every_node};
        std::printf("%-8s %-6s %7d", name(type), name(ReduceOp(kind)), sources);
        for (const std::size_t bytes : choice.bytes) {
          const Cell cell = measure(buffers, reduction, sources, bytes, choice.stores);
          std::printf(" %20.1f %7.2f", cell.bytes_per_second / 1e9, cell.of_copy);
          std::fflush(stdout);
        }
        std::printf("\n");
      }
    }
  }
}

int main_program(int argc, char** argv) {
  CLI::App app("How fast reductions are, beside a pass that reads and writes as many streams.");
  Choice choice;
  std::string type = "all", op = "all", stores = "ordinary";
  std::vector<std::string> bytes = {"32K", "256K", "64M"};
  choice.sources = {2, 4, 8};
  app.add_option("--type", type, "i8 u8 i16 … f16 bf16 f32 f64 f8e4m3 f8e5m2, or all (all)");
  app.add_option("--op", op, "sum prod min max avg mulsum band bor bxor, or all (all)");
  app.add_option("--sources", choice.sources, "how many are reduced into one (2,4,8)")
      ->delimiter(',')
      ->check(CLI::Range(2, kMaxStreams));
  app.add_option("--bytes", bytes, "of all sources and the result together (32K,256K,64M)")->delimiter(',');
  app.add_option("--stores", stores, "ordinary, or streaming: past the caches (ordinary)")
      ->check(CLI::IsMember({"ordinary", "streaming"}));
  app.add_flag("--every-node", choice.every_node, "round small floats after every operation, as reproducible calls do");
  const std::optional<int> ended = parse(app, argc, argv, [&] {
    choice.types = perf::parse_types(type);
    choice.ops = perf::parse_ops(op);
    choice.bytes = parse_sizes(bytes);
  });
  if (ended) return *ended;
  choice.stores = stores == "streaming" ? StoreKind::kStreaming : StoreKind::kOrdinary;
  print_table(choice);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace tutti::benchmark

int main(int argc, char** argv) { return tutti::benchmark::main_program(argc, argv); }
