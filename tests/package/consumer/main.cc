#include <tutti/tutti.h>

#include <cstdio>
#include <span>
#include <thread>
#include <vector>

int main() {
  const tutti::UniqueId id = tutti::UniqueId::create();
  std::vector<float> sums[2];
  auto rank = [&](int r) {
    auto world = tutti::Communicator::create(id, r, 2);
    const std::vector<float> mine(1000, static_cast<float>(r + 1));
    sums[r].resize(mine.size());
    world.all_reduce(std::span<const float>(mine), std::span<float>(sums[r]));
    world.destroy();
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  std::printf("sums %g %g\n", sums[0][999], sums[1][0]);
  return sums[0] == std::vector<float>(1000, 3) && sums[1] == sums[0] ? 0 : 1;
}
