// What the ring of last operations and the signatures of calls cost: blocking all_reduces between two ranks, threads of
// this process, with both switched on and off in turn.
//   ring_cost [BYTES...]      8, 1024, 65536 and 1048576 bytes
// Prints, for each size, the median time of a call without and with them and the ratio of neighbouring batches: its
// median, the quartiles, and what is left of it when two batches of the same kind are compared (the noise).

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "base/config.h"
#include "bootstrap/membership.h"
#include "communicator/session.h"
#include "communicator/setup.h"

namespace {

constexpr int kRanks = 2;
constexpr int kBlocks = 1500;             // of four batches: off, on, on, off
constexpr double kBatchSeconds = 300e-6;  // short, so that what disturbs this machine hits few batches

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double quantile(std::vector<double> values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Seconds a call of each batch, in the order off, on, on, off.
struct Figures {
  std::vector<double> off, on, ratio, noise;
};

class Rank {
 public:
  Rank(tutti::Session& session, std::size_t bytes) : session_(session), input_(bytes, 1), output_(bytes) {}

  double batch(bool recording, int calls) {
    session_.log().switch_recording(recording);
    const tutti::CollectiveArguments arguments{tutti::Collective::kAllReduce,
                                               input_.data(),
                                               output_.data(),
                                               input_.size(),
                                               tutti::DataType::kU8,
                                               tutti::kSum,
                                               0};
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      session_.collectives().run(arguments, std::chrono::milliseconds(0));
    }
    return seconds_since(start) / calls;
  }

 private:
  tutti::Session& session_;
  std::vector<unsigned char> input_;
  std::vector<unsigned char> output_;
};

Figures measure(Rank& rank, int& calls, std::barrier<>& all, bool leads) {
  rank.batch(true, 2000);
  const double call = rank.batch(true, 200);
  if (leads) calls = std::clamp(static_cast<int>(kBatchSeconds / call), 10, 20'000);
  all.arrive_and_wait();
  Figures figures;
  for (int i = 0; i < kBlocks; ++i) {
    const double off = rank.batch(false, calls);
    const double on = rank.batch(true, calls);
    const double on_again = rank.batch(true, calls);
    const double off_again = rank.batch(false, calls);
    figures.off.push_back((off + off_again) / 2);
    figures.on.push_back((on + on_again) / 2);
    figures.ratio.push_back((on + on_again) / (off + off_again));
    figures.noise.push_back(off_again / off);
  }
  all.arrive_and_wait();
  return figures;
}

void print(std::size_t bytes, const Figures& figures) {
  std::printf("%10zu %10.1f %10.1f   %+6.2f %%   %+6.2f … %+6.2f %%   %+6.2f … %+6.2f %%\n", bytes,
              quantile(figures.off, 0.5) * 1e9, quantile(figures.on, 0.5) * 1e9,
              (quantile(figures.ratio, 0.5) - 1) * 100, (quantile(figures.ratio, 0.25) - 1) * 100,
              (quantile(figures.ratio, 0.75) - 1) * 100, (quantile(figures.noise, 0.25) - 1) * 100,
              (quantile(figures.noise, 0.75) - 1) * 100);
}

void run(const std::vector<std::size_t>& sizes) {
  const tutti::UniqueId id = tutti::UniqueId::create();
  std::barrier<> all(kRanks);
  int calls = 0;
  const auto play = [&](int rank) {
    tutti::Options options;
    const auto session =
        tutti::open_session(tutti::membership_from_id(id, rank, kRanks), tutti::Config::from_environment(), options);
    for (const std::size_t bytes : sizes) {
      Rank mine(*session, bytes);
      const Figures figures = measure(mine, calls, all, rank == 0);
      if (rank == 0) print(bytes, figures);
    }
  };
  std::printf("%10s %10s %10s   %8s   %19s   %19s\n", "bytes", "off ns", "on ns", "more", "quartiles",
              "off against off");
  std::thread other(play, 1);
  play(0);
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::size_t> sizes;
    for (int i = 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
    if (sizes.empty()) sizes = {8, 1024, 65536, 1048576};
    run(sizes);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ring_cost: %s\n", error.what());
    return 1;
  }
}
