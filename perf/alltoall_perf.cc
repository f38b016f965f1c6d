#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return run(
      argc, argv,
      {.title = "AlltoAll",
       .plan_name = "all_to_all",
       .shape = divided,
       .expected = [](const Shape& shape, int rank, int ranks,
                      int) { return blocks_of_all(shape.count, ranks, static_cast<std::size_t>(rank) * shape.count); },
       .run = [](const Call& c) { c.communicator.all_to_all(c.input, c.output, c.count, c.type); },
       .bus_factor = factor_others});
}
