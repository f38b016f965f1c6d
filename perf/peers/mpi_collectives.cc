// Measures collectives of an MPI library as the perf binaries measure Tutti's single calls: every rank touches its
// buffers (rewrites its input, reads its output), a barrier, one call; the slowest rank's time counts. Built by
// perf/compare, once for each MPI library that it finds.
//
//   mpi_collectives COLLECTIVE MIN_BYTES MAX_BYTES      prints "bytes p05 p50" in microseconds, one line a size
//
// COLLECTIVE: all_reduce, all_gather, reduce_scatter, broadcast. Bytes as nccl-tests reports them: of the larger side.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

int iterations(std::size_t bytes) {
  if (bytes <= 4096) return 2000;
  if (bytes <= 262144) return 500;
  return bytes <= 4194304 ? 80 : 12;
}

void call(const std::string& collective, const float* input, float* output, int count) {
  if (collective == "all_reduce") {
    MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (collective == "all_gather") {
    MPI_Allgather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, MPI_COMM_WORLD);
  } else if (collective == "reduce_scatter") {
    MPI_Reduce_scatter_block(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else {
    MPI_Bcast(output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) {
    std::fprintf(stderr, "usage: mpi_collectives COLLECTIVE MIN_BYTES MAX_BYTES\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const std::string collective = argv[1];
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool gathers = collective == "all_gather";
  const bool scatters = collective == "reduce_scatter";
  volatile float sink = 0;
  for (std::size_t bytes = std::strtoull(argv[2], nullptr, 10); bytes <= std::strtoull(argv[3], nullptr, 10);
       bytes *= 2) {
    const std::size_t whole = bytes / sizeof(float);
    const std::size_t block = whole / static_cast<std::size_t>(ranks);
    std::vector<float> input(gathers ? block : whole);
    std::vector<float> output(scatters ? block : whole);
    const int count = static_cast<int>(gathers || scatters ? block : whole);
    const int timed = iterations(bytes);
    std::vector<double> times;
    for (int i = -timed / 5 - 2; i < timed; ++i) {
      std::fill(input.begin(), input.end(), static_cast<float>(rank + 1));
      float sum = 0;
      for (const float value : output) sum += value;
      sink = sum;
      MPI_Barrier(MPI_COMM_WORLD);
      const auto start = std::chrono::steady_clock::now();
      call(collective, input.data(), output.data(), count);
      double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      double slowest = 0;
      MPI_Reduce(&time, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      if (i >= 0) times.push_back(slowest * 1e6);
    }
    if (rank != 0) continue;
    std::sort(times.begin(), times.end());
    std::printf("%zu %.4f %.4f\n", bytes, times[times.size() / 20], times[times.size() / 2]);
    std::fflush(stdout);
  }
  MPI_Finalize();
  return sink > 1e30f ? 1 : 0;
}
