#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return run(argc, argv,
             {.title = "Gather",
              .plan_name = "gather",
              .rooted = true,
              .shape =
                  [](std::size_t count, int ranks, std::size_t granule) {
                    Shape shape = divided(count, ranks, granule);
                    shape.send = shape.send_offset = shape.count;
                    return shape;
                  },
              .expected = [](const Shape& shape, int rank, int ranks, int root) -> std::vector<Segment> {
                if (rank != root) return {};
                return blocks_of_all(shape.count, ranks, 0);
              },
              .run = [](const Call& c) { c.communicator.gather(c.input, c.output, c.count, c.type, c.root); },
              .bus_factor = factor_others});
}
