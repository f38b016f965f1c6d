#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return run(argc, argv,
             {.title = "AllReduce",
              .plan_name = "all_reduce",
              .reduces = true,
              .shape = whole,
              .expected = [](const Shape& shape, int, int, int) -> std::vector<Segment> {
                return {{0, shape.recv, kReduction, 0}};
              },
              .run = [](const Call& c) { c.communicator.all_reduce(c.input, c.output, c.count, c.type, c.op); },
              // Every element is sent to and received from the others, as a contribution and as a result.
              .bus_factor = [](int ranks) { return 2.0 * factor_others(ranks); }});
}
