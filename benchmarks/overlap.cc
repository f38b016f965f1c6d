// How much of the communication of a backward pass disappears behind its computation: gradients in buckets, each added
// up over two ranks (threads of this process) on a HostStream as soon as it has been computed.
//   overlap [--buckets N] [--bytes B,B…] [--ratios R,R…] [--buffers private|library] [--rounds N] [--bind]
//           [--uneven SHARE]
// Four phases in turn, in each round: compute alone; all buckets reduced with nothing else to do; both; and both with
// calls that block. One line for each size and each ratio of compute to communication: the median milliseconds of the
// phases (of the slower rank), then two shares, medians of the rounds with quartiles.
//   hidden     of what could be: (compute + communication - both) / min(compute, communication). Below 0, doing both at
//              once takes longer than one after the other.
//   of blocks  of what blocking calls add to the computation: (blocking - both) / (blocking - compute)
// With --uneven 0.5 each rank computes half as long again for every other bucket, and half as long for those between:
// blocking calls wait for the slower rank each time.

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_line.h"
#include "perf/statistics.h"
#include "ranks.h"
#include "tutti/tutti.h"

namespace tutti::benchmark {
namespace {

constexpr int kRanks = 2;
constexpr int kCalibrations = 20;

struct Choice {
  int buckets = 25;
  int rounds = 60;
  std::vector<double> ratios = {1, 2, 4};
  std::vector<std::size_t> bytes;
  bool library_buffers = false;
  bool bind = false;
  double uneven = 0;
};

// Binds the calling thread, and those that it starts, to the processor with this index among those of the process.
void bind_to(int index) {
  cpu_set_t all;
  if (::sched_getaffinity(0, sizeof(all), &all) != 0) throw std::runtime_error("cannot find out the processors");
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) processors.push_back(cpu);
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processors[static_cast<std::size_t>(index) % processors.size()], &one);
  if (::sched_setaffinity(0, sizeof(one), &one) != 0) throw std::runtime_error("cannot bind a rank to a processor");
}

// Keeps a core busy, and nothing but the core: multiplications of a matrix that stays in its first cache.
class Computation {
 public:
  Computation() { std::fill(std::begin(matrix_), std::end(matrix_), 1.0F / kSide); }

  void run(long products) {
    for (long i = 0; i < products; ++i) multiply();
  }

  // Products that take so long on a core of one's own.
  static long products_in(double time) {
    Computation trial;
    double best = 1;
    for (int i = 0; i < kCalibrations; ++i) {
      const double begin = seconds();
      trial.run(kTrial);
      best = std::min(best, (seconds() - begin) / kTrial);
    }
    return std::max(static_cast<long>(time / best), 1L);
  }

 private:
  static constexpr int kSide = 32;
  static constexpr long kTrial = 20;

  void multiply() {
    for (int r = 0; r < kSide; ++r) {
      float row[kSide] = {};
      for (int k = 0; k < kSide; ++k) {
        for (int c = 0; c < kSide; ++c) row[c] += vector_[k] * matrix_[k * kSide + c];
      }
      std::copy_n(row, kSide, vector_);
    }
    asm volatile("" : : "r"(vector_) : "memory");  // somebody wants it
  }

  alignas(64) float matrix_[kSide * kSide];
  alignas(64) float vector_[kSide] = {1};
};

using Bucket = std::unique_ptr<float, void (*)(float*)>;

Bucket allocate_bucket(std::size_t bytes, bool library) {
  Bucket bucket = library ? Bucket(static_cast<float*>(tutti::allocate(bytes)), [](float* at) { deallocate(at); })
                          : Bucket(static_cast<float*>(std::malloc(bytes)), [](float* at) { std::free(at); });
  if (!bucket) throw std::bad_alloc();
  std::memset(bucket.get(), 0, bytes);
  return bucket;
}

enum Phase { kCompute, kCommunicate, kBoth, kBlocking, kPhases };

class Rank {
 public:
  Rank(Communicator& world, std::size_t bytes, const Choice& choice)
      : world_(world), count_(bytes / sizeof(float)), uneven_(choice.uneven) {
    for (int b = 0; b < choice.buckets; ++b) buckets_.push_back(allocate_bucket(bytes, choice.library_buffers));
  }

  // Seconds. products: of the computation before each bucket.
  double run(Phase phase, long products, std::barrier<>& all) {
    for (const Bucket& bucket : buckets_) std::fill_n(bucket.get(), count_, 1.0F);
    works_.clear();
    all.arrive_and_wait();
    const double begin = seconds();
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      float* const bucket = buckets_[b].get();
      if (phase != kCommunicate) computation_.run(products_before(b, products));
      if (phase == kCompute) continue;
      const Stream stream = phase == kBlocking ? Stream() : Stream(stream_);
      works_.push_back(world_.all_reduce(bucket, bucket, count_, DataType::kF32, kSum, stream));
    }
    for (const Work& work : works_) work.wait();
    const double time = seconds() - begin;
    const float expected = phase == kCompute ? 1.0F : static_cast<float>(kRanks);
    for (const Bucket& bucket : buckets_) {
      if (bucket.get()[count_ - 1] != expected) throw std::runtime_error("wrong sums");
    }
    all.arrive_and_wait();
    return time;
  }

 private:
  long products_before(std::size_t bucket, long products) const {
    const bool longer = (bucket + static_cast<std::size_t>(world_.rank())) % 2 == 0;
    return static_cast<long>(static_cast<double>(products) * (longer ? 1 + uneven_ : 1 - uneven_));
  }

  Communicator& world_;
  const std::size_t count_;
  const double uneven_;
  HostStream stream_;
  Computation computation_;
  std::vector<Bucket> buckets_;
  std::vector<Work> works_;
};

struct Round {
  std::array<double, kPhases> times;  // of the slower rank

  double hidden() const {
    return (times[kCompute] + times[kCommunicate] - times[kBoth]) / std::min(times[kCompute], times[kCommunicate]);
  }
  double of_blocks() const { return (times[kBlocking] - times[kBoth]) / (times[kBlocking] - times[kCompute]); }
};

// All ranks; the result is rank 0's.
class Measurement {
 public:
  explicit Measurement(const Choice& choice) : choice_(choice), all_(kRanks) {}

  void play(Communicator& world) {
    const int rank = world.rank();
    for (const std::size_t bytes : choice_.bytes) {
      Rank mine(world, bytes, choice_);
      const double communication = communication_time(mine, rank);
      for (const double ratio : choice_.ratios) {
        if (rank == 0) products_ = Computation::products_in(ratio * communication / choice_.buckets);
        all_.arrive_and_wait();
        std::vector<Round> rounds;
        for (int i = 0; i < choice_.rounds; ++i) rounds.push_back(round(mine, rank));
        if (rank == 0) print(bytes, ratio, rounds);
      }
    }
  }

 private:
  double communication_time(Rank& mine, int rank) {
    std::vector<double> times;
    for (int i = 0; i < kCalibrations; ++i) times.push_back(slower(mine.run(kCommunicate, 0, all_), rank));
    return perf::percentile(times, 50);
  }

  Round round(Rank& mine, int rank) {
    Round round;
    for (const Phase phase : {kCompute, kCommunicate, kBoth, kBlocking}) {
      round.times[phase] = slower(mine.run(phase, products_, all_), rank);
    }
    return round;
  }

  double slower(double time, int rank) {
    times_[static_cast<std::size_t>(rank)] = time;
    all_.arrive_and_wait();
    const double slowest = *std::max_element(times_.begin(), times_.end());
    all_.arrive_and_wait();
    return slowest;
  }

  void print(std::size_t bytes, double ratio, const std::vector<Round>& rounds) const {
    const auto median = [&](Phase phase) {
      std::vector<double> times;
      for (const Round& round : rounds) times.push_back(round.times[phase]);
      return perf::percentile(times, 50) * 1e3;
    };
    const auto share = [&](double (Round::*of)() const) {
      std::vector<double> shares;
      for (const Round& round : rounds) shares.push_back(100 * (round.*of)());
      std::printf("  %4.0f %% (%4.0f … %3.0f)", perf::percentile(shares, 50), perf::percentile(shares, 25),
                  perf::percentile(shares, 75));
    };
    std::printf("%3d x %9zu %6.3g:1 %10.3f %13.3f %8.3f %8.3f", choice_.buckets, bytes, ratio, median(kCompute),
                median(kCommunicate), median(kBoth), median(kBlocking));
    share(&Round::hidden);
    share(&Round::of_blocks);
    std::printf("\n");
    std::fflush(stdout);
  }

  const Choice& choice_;
  std::barrier<> all_;
  std::array<double, kRanks> times_{};
  long products_ = 0;
};

int main_program(int argc, char** argv) {
  CLI::App app("How much of the communication of gradients in buckets disappears behind computation.");
  Choice choice;
  std::vector<std::string> bytes = {"64K", "1M"};
  std::string buffers = "private";
  app.add_option("--buckets", choice.buckets, "of one backward pass (25)")->check(CLI::Range(1, 10'000));
  app.add_option("--bytes", bytes, "of a bucket (64K,1M)")->delimiter(',');
  app.add_option("--ratios", choice.ratios, "of compute to communication (1,2,4)")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--buffers", buffers, "private, or library: memory from tutti::allocate (private)")
      ->check(CLI::IsMember({"private", "library"}));
  app.add_flag("--bind", choice.bind, "each rank, with its stream, to a processor of its own, as launchers do");
  app.add_option("--uneven", choice.uneven, "how much longer and shorter ranks compute in turn, 0 to 1 (0)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--rounds", choice.rounds, "of the four phases (60)")->check(CLI::PositiveNumber);
  const std::optional<int> ended = parse(app, argc, argv, [&] {
    choice.bytes = parse_sizes(bytes);
    const auto shortest = *std::min_element(choice.bytes.begin(), choice.bytes.end());
    if (shortest < sizeof(float)) throw std::invalid_argument("--bytes: a bucket has at least one float, 4 bytes");
  });
  if (ended) return *ended;
  choice.library_buffers = buffers == "library";
  std::printf("%15s %8s %10s %13s %8s %8s  %20s  %20s\n", "buckets x bytes", "ratio", "compute ms", "communication",
              "both", "blocking", "hidden (quartiles)", "of blocks");
  const UniqueId id = UniqueId::create();
  Measurement measurement(choice);
  run_ranks(kRanks, [&](int rank) {
    if (choice.bind) bind_to(rank);
    Communicator world = Communicator::create(id, rank, kRanks);
    measurement.play(world);
  });
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace tutti::benchmark

int main(int argc, char** argv) { return tutti::benchmark::main_program(argc, argv); }
