// Every rank contributes a vector; every rank gets the sum.
//
//   mpirun -n 4 build/examples/hello

#include <tutti/tutti.h>

#include <cstdio>
#include <vector>

int main() {
  try {
    auto world = tutti::Communicator::from_environment();
    const std::vector<float> mine(1000, static_cast<float>(world.rank() + 1));
    std::vector<float> sum(mine.size());
    world.all_reduce(std::span<const float>(mine), std::span<float>(sum));
    const float expected = static_cast<float>(world.ranks() * (world.ranks() + 1) / 2);
    if (world.rank() == 0) {
      std::printf("%d rank%s on %d host%s: the sum is %g, by %s\n", world.ranks(), world.ranks() == 1 ? "" : "s",
                  world.hosts(), world.hosts() == 1 ? "" : "s", sum[0],
                  world.plan("all_reduce", sum.size(), tutti::DataType::kF32).c_str());
    }
    return sum.front() == expected && sum.back() == expected ? 0 : 1;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::name(error.code()), error.what());
    return 1;
  }
}
