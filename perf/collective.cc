#include "perf/collective.h"

namespace tutti::perf {

Shape whole(std::size_t count, int, std::size_t) { return {count, count, count}; }

Shape divided(std::size_t count, int ranks, std::size_t granule) {
  const std::size_t n = static_cast<std::size_t>(ranks);
  const std::size_t block = count / n / granule * granule;
  return {block * n, block * n, block};
}

std::vector<Segment> blocks_of_all(std::size_t count, int ranks, std::size_t first) {
  std::vector<Segment> segments;
  for (int source = 0; source < ranks; ++source) {
    segments.push_back({static_cast<std::size_t>(source) * count, count, source, first});
  }
  return segments;
}

double factor_one(int) { return 1.0; }

double factor_others(int ranks) { return static_cast<double>(ranks - 1) / ranks; }

}  // namespace tutti::perf
