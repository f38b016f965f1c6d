#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return run(argc, argv,
             {.title = "Scatter",
              .plan_name = "scatter",
              .rooted = true,
              .input_at_root_only = true,
              .shape =
                  [](std::size_t count, int ranks, std::size_t granule) {
                    Shape shape = divided(count, ranks, granule);
                    shape.recv = shape.recv_offset = shape.count;
                    return shape;
                  },
              .expected = [](const Shape& shape, int rank, int, int root) -> std::vector<Segment> {
                return {{0, shape.recv, root, static_cast<std::size_t>(rank) * shape.count}};
              },
              .run = [](const Call& c) { c.communicator.scatter(c.input, c.output, c.count, c.type, c.root); },
              .bus_factor = factor_others});
}
