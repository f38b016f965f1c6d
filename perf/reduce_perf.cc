#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return run(argc, argv,
             {.title = "Reduce",
              .plan_name = "reduce",
              .reduces = true,
              .rooted = true,
              .shape = whole,
              .expected = [](const Shape& shape, int rank, int, int root) -> std::vector<Segment> {
                if (rank != root) return {};
                return {{0, shape.recv, kReduction, 0}};
              },
              .run = [](const Call& c) { c.communicator.reduce(c.input, c.output, c.count, c.type, c.op, c.root); },
              .bus_factor = factor_one});
}
