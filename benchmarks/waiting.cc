// What waiting costs, and how fast it ends. Ranks are processes of this program.
//   waiting
// Prints: the processor time of a rank whose communicator is idle, and of one that is blocked in a barrier, for two
// seconds each, over shared memory and over TCP; how long after the last rank's call another one returns that has
// waited for it for so long; and all_reduces of 2, 4 and 8 ranks on two processors.

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace {

using namespace std::chrono_literals;

double clock_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
double now() { return clock_of(CLOCK_MONOTONIC); }
double processor_time() { return clock_of(CLOCK_PROCESS_CPUTIME_ID); }

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// What the processes of one job share.
struct Shared {
  static constexpr std::size_t kSamples = 4096;

  char id[512];
  std::atomic<bool> has_id{false};
  double called;                // by the last rank, of one sample
  double samples[8][kSamples];  // by rank
};

using Body = std::function<void(tutti::Communicator&, Shared&)>;

void play(int rank, int ranks, const tutti::Options& options, Shared& shared, const Body& body) {
  std::optional<tutti::UniqueId> id;
  if (rank == 0) {
    id = tutti::UniqueId::create();
    std::snprintf(shared.id, sizeof(shared.id), "%s", id->to_text().c_str());
    shared.has_id = true;
  } else {
    while (!shared.has_id) std::this_thread::sleep_for(1ms);
    id = tutti::UniqueId::parse(shared.id);
  }
  tutti::Communicator communicator = tutti::Communicator::create(*id, rank, ranks, options);
  communicator.barrier();
  body(communicator, shared);
  communicator.barrier();
}

// Runs the body in so many processes; the result is valid until the next job.
const Shared& run_job(int ranks, const Body& body, const std::map<std::string, std::string>& config = {}) {
  static void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Shared& shared = *new (memory) Shared;
  tutti::Options options;
  options.config = config;
  for (int rank = 0; rank < ranks; ++rank) {
    if (::fork() != 0) continue;
    try {
      play(rank, ranks, options, shared, body);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      std::_Exit(EXIT_FAILURE);
    }
    std::_Exit(EXIT_SUCCESS);
  }
  for (int status = 0; ::wait(&status) > 0;) {
    if (status != 0) std::exit(EXIT_FAILURE);
  }
  return shared;
}

constexpr double kWatched = 2;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// As a computation does: the system ends short sleeps some 50 µs late.
void work_for(double seconds) {
  for (const double end = now() + seconds; now() < end;) {
  }
}

void print_processor_time(const char* name, const std::map<std::string, std::string>& config) {
  const double idle = run_job(
                          2,
                          [](tutti::Communicator& communicator, Shared& shared) {
                            const double before = processor_time();
                            sleep_for(kWatched);
                            shared.samples[communicator.rank()][0] = processor_time() - before;
                          },
                          config)
                          .samples[0][0];
  const double blocked = run_job(
                             2,
                             [](tutti::Communicator& communicator, Shared& shared) {
                               if (communicator.rank() == 1) sleep_for(kWatched);
                               const double before = processor_time();
                               communicator.barrier();
                               shared.samples[communicator.rank()][0] = processor_time() - before;
                             },
                             config)
                             .samples[0][0];
  std::printf("%-14s idle %8.3f ms (%6.3f %%)   blocked %8.3f ms (%6.3f %%)\n", name, idle * 1e3, idle / kWatched * 100,
              blocked * 1e3, blocked / kWatched * 100);
}

void print_wake_up(const char* name, const std::map<std::string, std::string>& config) {
  std::printf("%-14s", name);
  for (const auto& [waited, count] : {std::pair(5e-6, 4000), std::pair(50e-6, 2000), std::pair(500e-6, 400),
                                      std::pair(1e-3, 200), std::pair(0.1, 20), std::pair(1.0, 4)}) {
    const Shared& shared = run_job(
        2,
        [=](tutti::Communicator& communicator, Shared& all) {
          for (int i = 0; i < count; ++i) {
            communicator.barrier();
            if (communicator.rank() == 1) {
              waited < 1e-3 ? work_for(waited) : sleep_for(waited);
              all.called = now();
            }
            communicator.barrier();
            if (communicator.rank() == 0) all.samples[0][i] = now() - all.called;
          }
        },
        config);
    const std::vector<double> samples(shared.samples[0], shared.samples[0] + count);
    std::printf("   after %7.3f ms: %6.1f us (90 %%: %6.1f)", waited * 1e3, quantile(samples, 0.5) * 1e6,
                quantile(samples, 0.9) * 1e6);
  }
  std::printf("\n");
}

void print_all_reduces(int ranks) {
  std::printf("%d ranks on two processors", ranks);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{64} << 10, std::size_t{1} << 20}) {
    const int count = bytes <= 8 ? 4000 : bytes <= 65536 ? 1000 : 150;
    const Shared& shared = run_job(ranks, [=](tutti::Communicator& communicator, Shared& all) {
      std::vector<float> input(bytes / sizeof(float), 1), output(bytes / sizeof(float));
      for (int i = -count / 10; i < count; ++i) {
        std::fill(input.begin(), input.end(), static_cast<float>(i));
        const double before = now();
        communicator.all_reduce(input.data(), output.data(), input.size(), tutti::DataType::kF32, tutti::kSum);
        if (i >= 0) all.samples[communicator.rank()][i] = now() - before;
        if (output.back() != static_cast<float>(i * ranks)) std::abort();
      }
    });
    std::vector<double> samples(shared.samples[0], shared.samples[0] + count);
    double sum = 0;
    for (const double sample : samples) sum += sample;
    std::printf("   %7zu B: mean %7.1f median %7.1f us", bytes, sum / count * 1e6, quantile(samples, 0.5) * 1e6);
  }
  std::printf("\n");
}

}  // namespace

int main() {
  cpu_set_t two;
  CPU_ZERO(&two);
  CPU_SET(0, &two);
  CPU_SET(1, &two);
  ::sched_setaffinity(0, sizeof(two), &two);
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  const std::map<std::string, std::string> tcp = {{"TUTTI_SHM_DISABLE", "1"}};
  std::printf("processor time of a rank in %.0f s\n", kWatched);
  print_processor_time("shared memory", {});
  print_processor_time("tcp", tcp);
  std::printf("from the last rank's call of a barrier to the return of another\n");
  print_wake_up("shared memory", {});
  print_wake_up("tcp", tcp);
  std::printf("all_reduce, float sum, inputs rewritten between calls\n");
  for (const int ranks : {2, 4, 8}) print_all_reduces(ranks);
  return EXIT_SUCCESS;
}
