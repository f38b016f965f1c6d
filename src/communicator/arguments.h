#pragma once

#include <cstddef>
#include <string>

#include "executor/signature.h"
#include "tutti/types.h"

namespace tutti {

// One collective as the caller passed it.
struct CollectiveArguments {
  Collective collective = Collective::kBarrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kU8;
  ReduceOp op = kSum;
  int root = 0;
};

// Blocks of `count` elements that this rank's input and output have; 0 where the buffer does not matter.
struct BufferBlocks {
  std::size_t input;
  std::size_t output;
};
BufferBlocks buffer_blocks(Collective collective, int rank, int ranks, int root);
// Of the larger side, on the rank that has most: what sizes are reported and algorithms chosen by.
std::size_t largest_blocks(Collective collective, int ranks);

// Checks everything that can be checked on one rank. Returns whether the call is in place. Throws
// Error(kInvalidArgument) that names the call and the communicator; nothing has happened then.
bool check_arguments(const CollectiveArguments& arguments, int rank, int ranks, const std::string& communicator);

// The part of it that a call without buffers and root has.
void check_size(Collective collective, std::size_t count, DataType type, int ranks, const std::string& communicator);

// One send or receive as the caller passed it.
struct TransferArguments {
  const char* call;  // "send" or "recv"
  const void* buffer = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kU8;
  int peer = 0;
  bool any_allowed = false;
};
void check_transfer(const TransferArguments& arguments, int ranks, const std::string& communicator);

// "all_reduce f32×1000 sum", "broadcast i8×4 from 2".
std::string describe(const CallShape& shape);

}  // namespace tutti
