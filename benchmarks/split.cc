// What it costs to split a communicator: ranks as threads of this process.
//   split [RANKS [GROUPS [SPLITS]]]      64 ranks, 8 groups, 20 splits
// Prints the time from before the first rank calls split() until the last has its new communicator, and descriptors a
// rank before, with one split, and with all of them; then the same for an all_reduce on each.

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "ranks.h"
#include "tutti/tutti.h"

using tutti::benchmark::open_descriptors;
using tutti::benchmark::run_ranks;
using tutti::benchmark::seconds;

namespace {

struct Shared {
  explicit Shared(int count) : ranks(count), all(count) {}
  const int ranks;
  std::barrier<> all;
  double begin = 0;
  std::vector<double> splits;  // milliseconds
};

void report(int rank, const Shared& shared, const char* when) {
  if (rank != 0) return;
  std::printf("%-28s %6.2f descriptors a rank\n", when, static_cast<double>(open_descriptors()) / shared.ranks);
}

void play(const tutti::UniqueId& id, int rank, int groups, int splits, Shared& shared) {
  tutti::Communicator world = tutti::Communicator::create(id, rank, shared.ranks);
  int one = 1;
  world.all_reduce(&one, &one, 1, tutti::DataType::kI32, tutti::kSum);
  report(rank, shared, "before any split");
  std::vector<tutti::Communicator> children;
  for (int i = 0; i < splits; ++i) {
    shared.all.arrive_and_wait();
    if (rank == 0) shared.begin = seconds();
    shared.all.arrive_and_wait();
    children.push_back(*world.split(rank % groups, rank));
    shared.all.arrive_and_wait();
    if (rank == 0) shared.splits.push_back((seconds() - shared.begin) * 1e3);
    if (i == 0) report(rank, shared, "with one split");
    shared.all.arrive_and_wait();
  }
  report(rank, shared, "with all splits");
  for (tutti::Communicator& child : children) {
    int sum = 1;
    child.all_reduce(&sum, &sum, 1, tutti::DataType::kI32, tutti::kSum);
    if (sum != child.ranks()) std::abort();
  }
  shared.all.arrive_and_wait();
  report(rank, shared, "after an all_reduce on each");
  shared.all.arrive_and_wait();
  children.clear();
  shared.all.arrive_and_wait();
  report(rank, shared, "when all splits are gone");
  shared.all.arrive_and_wait();
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 64;
  const int groups = argc > 2 ? std::atoi(argv[2]) : 8;
  const int splits = argc > 3 ? std::atoi(argv[3]) : 20;
  if (ranks < 1 || groups < 1 || splits < 1) {
    std::fprintf(stderr, "usage: split [RANKS [GROUPS [SPLITS]]], all at least 1\n");
    return EXIT_FAILURE;
  }
  Shared shared(ranks);
  const tutti::UniqueId id = tutti::UniqueId::create();
  run_ranks(ranks, [&](int rank) { play(id, rank, groups, splits, shared); });
  std::sort(shared.splits.begin(), shared.splits.end());
  std::printf("%d ranks split into %d groups, %d times: least %.2f, median %.2f, most %.2f ms\n", ranks,
              std::min(groups, ranks), splits, shared.splits.front(), shared.splits[shared.splits.size() / 2],
              shared.splits.back());
  return EXIT_SUCCESS;
}
