// How fast two processors read, write and copy memory, both at the same time: what perf/compare computes the physical
// limit from. docs/performance.md says how.
//
//   memory_speed BYTES...      prints "bytes p05 p50 kind" in microseconds, the time for that many bytes on each thread
//
// Each thread has an input and an output of that size. Before every pass, outside the clock, it rewrites its input and
// reads its output, as programs do. Kinds:
//   read own|peer               the input, which this thread or the other one has just written
//   write own|peer              the output, which this thread or the other one has just read
//   copy own|peer to own|peer   an input to an output
// with ", streaming" where the stores are streaming ones.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "perf/bare/memory.h"
#include "perf/bare/pair.h"
#include "perf/bare/vectors.h"

namespace tutti::perf::bare {
namespace {

constexpr int kFewer = 2;  // iterations: there are many kinds
constexpr int kLeast = 8;

struct Buffers {
  float* in[2];
  float* out[2];
};

// One thread's side of all passes over buffers of one size.
class Speed {
 public:
  Speed(Pair& pair, int rank, const Buffers& all, std::size_t count)
      : pair_(pair), rank_(rank), all_(all), count_(count) {}

  void measure() {
    const float* const in = all_.in[rank_];
    const float* const their_in = all_.in[1 - rank_];
    pass("read own", [&] { seen_ += sum(in, count_); });
    pass("read peer", [&] { seen_ += sum(their_in, count_); });
    stores<Store::kOrdinary>("");
    stores<Store::kStreaming>(", streaming");
    asm volatile("" : : "r"(&seen_) : "memory");  // somebody wants it
  }

 private:
  template <Store store>
  void stores(const std::string& suffix) {
    const float* const in = all_.in[rank_];
    const float* const their_in = all_.in[1 - rank_];
    float* const out = all_.out[rank_];
    float* const their_out = all_.out[1 - rank_];
    pass("write own" + suffix, [&] { fill<store>(out, count_, 1); });
    pass("write peer" + suffix, [&] { fill<store>(their_out, count_, 1); });
    pass("copy own to own" + suffix, [&] { copy<store>(in, out, count_); });
    pass("copy own to peer" + suffix, [&] { copy<store>(in, their_out, count_); });
    pass("copy peer to own" + suffix, [&] { copy<store>(their_in, out, count_); });
    pass("copy peer to peer" + suffix, [&] { copy<store>(their_in, their_out, count_); });
  }

  template <typename Timed>
  void pass(const std::string& kind, Timed&& timed) {
    const std::size_t bytes = count_ * sizeof(float);
    const Times times = pair_.time(
        rank_, std::max(iterations(bytes) / kFewer, kLeast),
        [&] {
          pair_.barrier(rank_);  // the other has ended its pass
          fill<Store::kOrdinary>(all_.in[rank_], count_, 1);
          seen_ += sum(all_.out[rank_], count_);
        },
        timed);
    if (rank_ != 0) return;
    std::printf("%zu %.4f %.4f %s\n", bytes, times.p05_us, times.p50_us, kind.c_str());
    std::fflush(stdout);
  }

  Pair& pair_;
  int rank_;
  const Buffers& all_;
  std::size_t count_;
  float seen_ = 0;
};

int main_program(int argc, char** argv) {
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  const bool sensible = std::all_of(sizes.begin(), sizes.end(), [](std::size_t n) { return n >= sizeof(float); });
  if (sizes.empty() || !sensible) {
    std::fprintf(stderr, "usage: memory_speed BYTES...\n");
    return 2;
  }
  const std::size_t largest = *std::max_element(sizes.begin(), sizes.end());
  Pair pair;
  Buffers buffers{};
  Pair::run([&](int rank) {
    const Memory in(Memory::Kind::kShared, largest), out(Memory::Kind::kShared, largest);
    buffers.in[rank] = in.floats();
    buffers.out[rank] = out.floats();
    pair.barrier(rank);
    for (const std::size_t bytes : sizes) Speed(pair, rank, buffers, bytes / sizeof(float)).measure();
    pair.barrier(rank);
  });
  return 0;
}

}  // namespace
}  // namespace tutti::perf::bare

int main(int argc, char** argv) { return tutti::perf::bare::main_program(argc, argv); }
