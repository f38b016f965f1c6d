// All-reduce of floats between two threads in the schemes that Tutti uses, with nothing around them: no dispatch, no
// checks, no failures, no library. What Tutti's calls are compared with by perf/compare.
//
//   bare_loop private|library BYTES...     prints "bytes p05 p50 scheme" in microseconds, a line for each that applies
//
// Buffers are touched outside the clock: each thread rewrites its input and reads its output before every call.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "perf/bare/inline_exchange.h"
#include "perf/bare/memory.h"
#include "perf/bare/pair.h"
#include "perf/bare/shared_exchange.h"
#include "perf/bare/slot_exchange.h"
#include "perf/bare/vectors.h"

namespace tutti::perf::bare {
namespace {

constexpr Store kOrdinary = Store::kOrdinary;
constexpr Store kStreaming = Store::kStreaming;
constexpr std::size_t kSmallRing = 16 << 10;  // stays in the first cache
constexpr std::size_t kLargestWhole = 64 << 10;
constexpr std::size_t kStreamingRing = 1 << 20;

// One thread's side of all measurements.
class Runner {
 public:
  Runner(Pair& pair, int rank, const float* in, float* out) : pair_(pair), rank_(rank), in_(in), out_(out) {}

  template <typename Call>
  void measure(const char* scheme, float* in, std::size_t count, Call&& call) {
    const float value = static_cast<float>(rank_ + 1);
    float seen = 0;
    const Times times = pair_.time(
        rank_, iterations(count * sizeof(float)),
        [&] {
          fill<kOrdinary>(in, count, value);
          seen += sum(out_, count);
        },
        call);
    check(scheme, count);
    if (rank_ == 0) std::printf("%zu %.4f %.4f %s\n", count * sizeof(float), times.p05_us, times.p50_us, scheme);
    if (rank_ == 0) std::fflush(stdout);
    asm volatile("" : : "r"(&seen) : "memory");  // somebody wants it
    pair_.barrier(rank_);
  }

 private:
  void check(const char* scheme, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (out_[i] == 3.0f) continue;
      std::fprintf(stderr, "%s, %zu bytes: value %zu is %g, not 3\n", scheme, count * sizeof(float), i,
                   static_cast<double>(out_[i]));
      std::exit(3);
    }
    std::memset(out_, 0, count * sizeof(float));
  }

  Pair& pair_;
  int rank_;
  const float* in_;
  float* out_;
};

struct PrivateSchemes {
  PrivateSchemes() : small(kSmallRing), ordinary(2 * second_level_cache()), streaming(kStreamingRing) {}

  void run(Pair& pair, int rank, const std::vector<std::size_t>& sizes) {
    const std::size_t bytes = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
    const Memory input(Memory::Kind::kPrivate, bytes), output(Memory::Kind::kPrivate, bytes);
    float* in = input.floats();
    float* out = output.floats();
    Runner runner(pair, rank, in, out);
    for (const std::size_t size : sizes) {
      const std::size_t n = size / sizeof(float);
      if (n <= InlineExchange::kValues) {
        runner.measure("inline", in, n, [&] { lines.add(rank, in, out, n); });
      } else if (n <= small.largest()) {
        runner.measure("whole", in, n, [&] { small.whole<kOrdinary>(rank, in, out, n); });
      } else if (size <= kLargestWhole) {
        runner.measure("whole", in, n, [&] { ordinary.whole<kOrdinary>(rank, in, out, n); });
        runner.measure("whole, streaming", in, n, [&] { streaming.whole<kStreaming>(rank, in, out, n); });
      }
      if (n <= small.largest()) continue;
      const std::size_t long_chunk = std::min(ordinary.largest(), (std::size_t{512} << 10) / sizeof(float));
      const std::size_t short_chunk = streaming.largest();
      runner.measure("slices", in, n, [&] { ordinary.slices<kOrdinary, kOrdinary>(rank, in, out, n, long_chunk); });
      runner.measure("slices, streaming to slots", in, n,
                     [&] { streaming.slices<kStreaming, kOrdinary>(rank, in, out, n, short_chunk); });
      if (size < (1 << 20)) continue;
      runner.measure("slices, streaming to outputs", in, n,
                     [&] { ordinary.slices<kOrdinary, kStreaming>(rank, in, out, n, long_chunk); });
      runner.measure("slices, streaming everywhere", in, n,
                     [&] { streaming.slices<kStreaming, kStreaming>(rank, in, out, n, short_chunk); });
    }
  }

  InlineExchange lines;
  SlotExchange small;
  SlotExchange ordinary;
  SlotExchange streaming;
};

struct LibrarySchemes {
  void run(Pair& pair, int rank, const std::vector<std::size_t>& sizes) {
    const std::size_t bytes = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
    const Memory input(Memory::Kind::kShared, bytes), output(Memory::Kind::kShared, bytes);
    float* in = input.floats();
    float* out = output.floats();
    buffers.in[rank] = in;
    buffers.out[rank] = out;
    pair.barrier(rank);
    const SharedBuffers all = buffers;
    Runner runner(pair, rank, in, out);
    for (const std::size_t size : sizes) {
      const std::size_t n = size / sizeof(float);
      if (n <= InlineExchange::kValues) {
        runner.measure("inline", in, n, [&] { lines.add(rank, in, out, n); });
        continue;
      }
      if (size <= (1 << 20)) runner.measure("own output", in, n, [&] { memory.own_output(rank, all, n); });
      runner.measure("slices", in, n, [&] { memory.slices<kOrdinary, kOrdinary>(rank, all, n); });
      runner.measure("slices, streaming to the peer", in, n,
                     [&] { memory.slices<kOrdinary, kStreaming>(rank, all, n); });
      runner.measure("slices, streaming", in, n, [&] { memory.slices<kStreaming, kStreaming>(rank, all, n); });
      runner.measure("slices, copied", in, n, [&] { memory.slices_copied<kOrdinary>(rank, all, n); });
      if (size < (1 << 20)) continue;
      runner.measure("slices, copied, streaming", in, n, [&] { memory.slices_copied<kStreaming>(rank, all, n); });
    }
  }

  InlineExchange lines;
  SharedExchange memory;
  SharedBuffers buffers{};
};

int main_program(int argc, char** argv) {
  const std::string kind = argc > 2 ? argv[1] : "";
  std::vector<std::size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if ((kind != "private" && kind != "library") || std::find(sizes.begin(), sizes.end(), 0u) != sizes.end()) {
    std::fprintf(stderr, "usage: bare_loop private|library BYTES...\n");
    return 2;
  }
  Pair pair;
  if (kind == "private") {
    PrivateSchemes schemes;
    Pair::run([&](int rank) { schemes.run(pair, rank, sizes); });
  } else {
    LibrarySchemes schemes;
    Pair::run([&](int rank) { schemes.run(pair, rank, sizes); });
  }
  return 0;
}

}  // namespace
}  // namespace tutti::perf::bare

int main(int argc, char** argv) { return tutti::perf::bare::main_program(argc, argv); }
