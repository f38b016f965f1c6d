#include "perf/collective.h"

using namespace tutti::perf;

namespace {

// Rank r sends to r + 1 and receives from r - 1. A send returns when it has been received, so the even ranks send
// first; a last rank that is even too waits for its neighbour's receive, which follows that neighbour's send.
void exchange(const Call& c) {
  const int rank = c.communicator.rank();
  const int ranks = c.communicator.ranks();
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  if (rank % 2 == 0) c.communicator.send(c.input, c.count, c.type, next);
  c.communicator.recv(c.output, c.count, c.type, previous);
  if (rank % 2 != 0) c.communicator.send(c.input, c.count, c.type, next);
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {.title = "SendRecv",
              .plan_name = nullptr,
              .in_place_defined = false,  // a rank that receives first would send what it received
              .min_ranks = 2,
              .note = "One send and one receive a rank, one after the other: even ranks send first",
              .shape = whole,
              .expected = [](const Shape& shape, int rank, int ranks, int) -> std::vector<Segment> {
                return {{0, shape.recv, (rank + ranks - 1) % ranks, 0}};
              },
              .run = exchange,
              .bus_factor = factor_one});
}
