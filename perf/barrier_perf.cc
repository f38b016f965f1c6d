#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return run(argc, argv,
             {.title = "Barrier",
              .plan_name = "barrier",
              .note = "A barrier moves no data: every size is 0",
              .shape =
                  [](std::size_t, int, std::size_t) {
                    return Shape{0, 0, 0};
                  },
              .expected = [](const Shape&, int, int, int) { return std::vector<Segment>(); },
              .run = [](const Call& c) { c.communicator.barrier(); },
              .bus_factor = factor_one});
}
