// What Options::reproducible costs: all_reduce sums by two communicators of the same ranks (threads of this process),
// one of which promises the same bits whatever the algorithm, in turn.
//   reproducible [--ranks N] [--types T,T…] [--bytes B,B…]
// One line for each type and size: the median microseconds of a call of each (of the slowest rank), and how much longer
// the reproducible one takes: the median of neighbouring batches, with the quartiles.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "perf/names.h"
#include "perf/number.h"
#include "perf/statistics.h"
#include "ranks.h"
#include "tutti/tutti.h"

namespace tutti::benchmark {
namespace {

constexpr int kBlocks = 60;  // of four batches: plain, reproducible, reproducible, plain
constexpr double kBatchSeconds = 1e-3;
constexpr int kMostCalls = 2000;

struct Choice {
  int ranks = 2;
  std::vector<DataType> types;
  std::vector<std::size_t> bytes;
};

struct Figures {
  std::vector<double> plain, reproducible, ratio;
};

// All ranks; what is printed is that of the slowest.
class Measurement {
 public:
  explicit Measurement(const Choice& choice)
      : choice_(choice), all_(choice.ranks), times_(static_cast<std::size_t>(choice.ranks)) {}

  void play(Communicator& plain, Communicator& reproducible) {
    for (const DataType type : choice_.types) {
      for (const std::size_t bytes : choice_.bytes) {
        const std::size_t count = std::max(bytes / element_size(type), std::size_t{1});
        std::vector<std::byte> input(count * element_size(type)), output(input.size());
        for (std::size_t i = 0; i < count; ++i) {
          perf::store(perf::encode(1.0 + static_cast<double>(i % 7) / 8, type), input.data() + i * element_size(type),
                      type);
        }
        const auto batch = [&](Communicator& communicator, int calls) {
          all_.arrive_and_wait();
          const double begin = seconds();
          for (int i = 0; i < calls; ++i) communicator.all_reduce(input.data(), output.data(), count, type, kSum);
          return slowest(communicator.rank(), (seconds() - begin) / calls);
        };
        const auto calls_of = [&](Communicator& communicator) {
          batch(communicator, 20);
          return std::clamp(static_cast<int>(kBatchSeconds / batch(communicator, 20)), 2, kMostCalls);
        };
        const int calls = std::min(calls_of(plain), calls_of(reproducible));
        Figures figures;
        for (int block = 0; block < kBlocks; ++block) {
          const double first = batch(plain, calls);
          const double second = batch(reproducible, calls) + batch(reproducible, calls);
          const double both = first + batch(plain, calls);
          figures.plain.push_back(both / 2);
          figures.reproducible.push_back(second / 2);
          figures.ratio.push_back(second / both);
        }
        if (plain.rank() == 0) print(type, bytes, figures);
      }
    }
  }

 private:
  double slowest(int rank, double time) {
    times_[static_cast<std::size_t>(rank)] = time;
    all_.arrive_and_wait();
    const double result = *std::max_element(times_.begin(), times_.end());
    all_.arrive_and_wait();
    return result;
  }

  static void print(DataType type, std::size_t bytes, const Figures& figures) {
    const auto more = [&](double percent) { return 100 * (perf::percentile(figures.ratio, percent) - 1); };
    std::printf("%-8s %10zu %11.2f %13.2f %+8.0f %%  %+5.0f … %+.0f %%\n", name(type), bytes,
                perf::percentile(figures.plain, 50) * 1e6, perf::percentile(figures.reproducible, 50) * 1e6, more(50),
                more(25), more(75));
    std::fflush(stdout);
  }

  const Choice& choice_;
  std::barrier<> all_;
  std::vector<double> times_;
};

int main_program(int argc, char** argv) {
  CLI::App app("What reproducible sums cost: all_reduce with and without, in turn.");
  Choice choice;
  std::vector<std::string> types = {"f32", "bf16"};
  std::vector<std::string> bytes = {"8", "1K", "64K", "1M", "16M"};
  app.add_option("--ranks", choice.ranks, "threads of this process (2)")->check(CLI::Range(2, 64));
  app.add_option("--types", types, "i8 u8 i16 … f16 bf16 f32 f64 f8e4m3 f8e5m2 (f32,bf16)")->delimiter(',');
  app.add_option("--bytes", bytes, "of a rank's input (8,1K,64K,1M,16M)")->delimiter(',');
  const std::optional<int> ended = parse(app, argc, argv, [&] {
    for (const std::string& type : types) {
      for (const DataType one : perf::parse_types(type)) choice.types.push_back(one);
    }
    choice.bytes = parse_sizes(bytes);
  });
  if (ended) return *ended;
  std::printf("%-8s %10s %11s %13s %10s  %s\n", "type", "bytes", "plain us", "reproducible", "more", "quartiles");
  const UniqueId first = UniqueId::create();
  const UniqueId second = UniqueId::create();
  Options options;
  options.reproducible = true;
  Measurement measurement(choice);
  run_ranks(choice.ranks, [&](int rank) {
    Communicator plain = Communicator::create(first, rank, choice.ranks);
    Communicator reproducible = Communicator::create(second, rank, choice.ranks, options);
    measurement.play(plain, reproducible);
  });
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace tutti::benchmark

int main(int argc, char** argv) { return tutti::benchmark::main_program(argc, argv); }
