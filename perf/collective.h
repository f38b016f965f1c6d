#pragma once

#include <cstddef>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/types.h"

namespace tutti::perf {

// Elements that one call moves, as nccl-tests counts them. `count` is what the library is called with.
struct Shape {
  std::size_t send;
  std::size_t recv;
  std::size_t count;
  // In place, rank r's input begins at r·send_offset of the output buffer and its output at r·recv_offset.
  std::size_t send_offset = 0;
  std::size_t recv_offset = 0;
};

// Every rank contributes `count` elements and receives as many.
Shape whole(std::size_t count, int ranks, std::size_t granule);
// `count` elements in all, divided over the ranks: blocks are rounded down to multiples of `granule` elements, so that
// the smallest sizes can be empty. Returned are send = recv = block·ranks; who gathers or scatters narrows one of them.
Shape divided(std::size_t count, int ranks, std::size_t granule);

// Who wrote a part of the output: a rank's input, or the reduction of all inputs.
inline constexpr int kReduction = -1;

// Output elements [offset, offset + count) must equal elements [first, first + count) of the source.
struct Segment {
  std::size_t offset;
  std::size_t count;
  int source;
  std::size_t first;
};

// `count` elements from each rank, in rank order, beginning at element `first` of every rank's input.
std::vector<Segment> blocks_of_all(std::size_t count, int ranks, std::size_t first);

struct Call {
  Communicator& communicator;
  const void* input;
  void* output;
  std::size_t count;
  DataType type;
  ReduceOp op;
  int root;
};

// One binary: what it calls, with how much, and what must come out. Everything else is the harness's.
struct Collective {
  const char* title;      // "AllReduce"
  const char* plan_name;  // what Communicator::plan() calls it; null for point-to-point, which needs no plan
  bool reduces = false;
  bool rooted = false;
  bool input_at_root_only = false;
  // Whether the result of a call in place is defined and can be checked.
  bool in_place_defined = true;
  int min_ranks = 1;
  const char* note = nullptr;  // a line for the header
  Shape (*shape)(std::size_t count, int ranks, std::size_t granule);
  std::vector<Segment> (*expected)(const Shape& shape, int rank, int ranks, int root);
  void (*run)(const Call& call);
  // Bus bandwidth over algorithm bandwidth.
  double (*bus_factor)(int ranks);
};

double factor_one(int ranks);
// (n - 1) / n: a rank's own part does not travel.
double factor_others(int ranks);

// The whole program. Returns the exit code.
int run(int argc, char** argv, const Collective& collective);

}  // namespace tutti::perf
