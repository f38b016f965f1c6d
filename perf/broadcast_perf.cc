#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return run(argc, argv,
             {.title = "Broadcast",
              .plan_name = "broadcast",
              .rooted = true,
              .input_at_root_only = true,
              .shape = whole,
              .expected = [](const Shape& shape, int, int, int root) -> std::vector<Segment> {
                return {{0, shape.recv, root, 0}};
              },
              .run = [](const Call& c) { c.communicator.broadcast(c.input, c.output, c.count, c.type, c.root); },
              .bus_factor = factor_one});
}
