#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return run(argc, argv,
             {.title = "ReduceScatter",
              .plan_name = "reduce_scatter",
              .reduces = true,
              .shape =
                  [](std::size_t count, int ranks, std::size_t granule) {
                    Shape shape = divided(count, ranks, granule);
                    shape.recv = shape.recv_offset = shape.count;
                    return shape;
                  },
              .expected = [](const Shape& shape, int rank, int, int) -> std::vector<Segment> {
                return {{0, shape.recv, kReduction, static_cast<std::size_t>(rank) * shape.count}};
              },
              .run = [](const Call& c) { c.communicator.reduce_scatter(c.input, c.output, c.count, c.type, c.op); },
              .bus_factor = factor_others});
}
