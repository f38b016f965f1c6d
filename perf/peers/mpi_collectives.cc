// Measures collectives of an MPI library as the perf binaries measure Tutti's single calls: every rank touches its
// buffers (rewrites its input, reads its output), all begin the call at the same moment, and it took until the last has
// ended. Built by perf/compare, once for each MPI library that it finds.
//
//   mpi_collectives COLLECTIVE BYTES...      prints "bytes p05 p50" in microseconds, one line a size
//
// COLLECTIVE: all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, gather, scatter, sendrecv,
// barrier. Bytes as nccl-tests reports them: of the larger side. A barrier has none; its bytes only say how often it is
// called.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "perf/common_start.h"
#include "perf/peers/iterations.h"

namespace {

struct Rank {
  int rank;
  int ranks;
  bool has_processor;  // of its own
};

// What a rank contributes to a call of so many floats, what it receives, and what is said to MPI.
struct Shape {
  std::size_t input;
  std::size_t output;
  int count;
};

struct Collective {
  const char* name;
  bool divided;  // the floats are divided over the ranks
  Shape (*shape)(std::size_t whole, std::size_t block);
  void (*call)(const Rank&, float* input, float* output, int count);
};

// Even ranks send first, as in sendrecv_perf.
void exchange(const Rank& me, float* input, float* output, int count) {
  const int next = (me.rank + 1) % me.ranks;
  const int previous = (me.rank + me.ranks - 1) % me.ranks;
  if (me.rank % 2 == 0) MPI_Send(input, count, MPI_FLOAT, next, 0, MPI_COMM_WORLD);
  MPI_Recv(output, count, MPI_FLOAT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (me.rank % 2 != 0) MPI_Send(input, count, MPI_FLOAT, next, 0, MPI_COMM_WORLD);
}

Shape all_to_all_shape(std::size_t whole, std::size_t block) { return {whole, whole, static_cast<int>(block)}; }
Shape same_shape(std::size_t whole, std::size_t) { return {whole, whole, static_cast<int>(whole)}; }
Shape gathered_shape(std::size_t whole, std::size_t block) { return {block, whole, static_cast<int>(block)}; }
Shape scattered_shape(std::size_t whole, std::size_t block) { return {whole, block, static_cast<int>(block)}; }
Shape no_shape(std::size_t, std::size_t) { return {0, 0, 0}; }

constexpr Collective kCollectives[] = {
    {"all_reduce", false, same_shape,
     [](const Rank&, float* in, float* out, int n) { MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }},
    {"all_gather", true, gathered_shape,
     [](const Rank&, float* in, float* out, int n) {
       MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
     }},
    {"reduce_scatter", true, scattered_shape,
     [](const Rank&, float* in, float* out, int n) {
       MPI_Reduce_scatter_block(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
     }},
    {"broadcast", false, same_shape,
     [](const Rank& me, float* in, float* out, int n) {
       MPI_Bcast(me.rank == 0 ? in : out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
     }},
    {"reduce", false, same_shape,
     [](const Rank&, float* in, float* out, int n) { MPI_Reduce(in, out, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD); }},
    {"all_to_all", true, all_to_all_shape,
     [](const Rank&, float* in, float* out, int n) {
       MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
     }},
    {"gather", true, gathered_shape,
     [](const Rank&, float* in, float* out, int n) {
       MPI_Gather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
     }},
    {"scatter", true, scattered_shape,
     [](const Rank&, float* in, float* out, int n) {
       MPI_Scatter(in, n, MPI_FLOAT, out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
     }},
    {"sendrecv", false, same_shape, exchange},
    {"barrier", false, no_shape, [](const Rank&, float*, float*, int) { MPI_Barrier(MPI_COMM_WORLD); }},
};

const Collective* find(const std::string& name) {
  for (const Collective& collective : kCollectives) {
    if (name == collective.name) return &collective;
  }
  return nullptr;
}

volatile float sink = 0;

void begin_together(const Rank& me, tutti::perf::CommonStart& start, double& begin) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (!me.has_processor) {
    begin = tutti::perf::now_us();
    return;
  }
  const double proposal = start.proposal();
  double moment = 0;
  MPI_Allreduce(&proposal, &moment, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  begin = start.wait_until(moment);
}

void measure(const Collective& collective, const Rank& me, std::size_t bytes) {
  const std::size_t whole = bytes / sizeof(float);
  const std::size_t block = whole / static_cast<std::size_t>(me.ranks);
  const Shape shape = collective.shape(collective.divided ? block * static_cast<std::size_t>(me.ranks) : whole, block);
  std::vector<float> input(shape.input);
  std::vector<float> output(shape.output);
  const int timed = tutti::perf::peers::iterations(bytes);
  std::vector<double> times;
  tutti::perf::CommonStart start;
  for (int i = -timed / 5 - 2; i < timed; ++i) {
    std::fill(input.begin(), input.end(), static_cast<float>(me.rank + 1));
    float sum = 0;
    for (const float value : output) sum += value;
    sink = sum;
    double span[2];  // begin, end
    begin_together(me, start, span[0]);
    collective.call(me, input.data(), output.data(), shape.count);
    span[1] = tutti::perf::now_us();
    if (!me.has_processor) {  // ranks take turns: each one's own time, without what others do after the call
      span[1] -= std::exchange(span[0], 0);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    double latest[2] = {};
    MPI_Reduce(span, latest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (i >= 0) times.push_back(latest[1] - latest[0]);
  }
  if (me.rank != 0) return;
  std::sort(times.begin(), times.end());
  std::printf("%zu %.4f %.4f\n", bytes, times[times.size() / 20], times[times.size() / 2]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Collective* collective = argc > 2 ? find(argv[1]) : nullptr;
  if (collective == nullptr) {
    std::fprintf(stderr, "usage: mpi_collectives COLLECTIVE BYTES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  Rank me{};
  MPI_Comm_rank(MPI_COMM_WORLD, &me.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &me.ranks);
  me.has_processor = me.ranks <= ::sysconf(_SC_NPROCESSORS_ONLN);
  for (int i = 2; i < argc; ++i) measure(*collective, me, std::strtoull(argv[i], nullptr, 10));
  MPI_Finalize();
}
