#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "communicator/arguments.h"

// The arguments of vector forms: made from what a caller passes, and checked. All throw Error(kInvalidArgument) that
// names the call, the communicator and the block.
namespace tutti {

// Who makes the call.
struct Caller {
  int rank;
  int ranks;
  const std::string& communicator;
};

using Elements = std::span<const std::size_t>;  // counts or offsets, one entry a rank

CollectiveArguments all_gather_v_arguments(const Caller& caller, const void* input, void* output, Elements counts,
                                           Elements offsets, DataType type);
CollectiveArguments reduce_scatter_v_arguments(const Caller& caller, const void* input, void* output, Elements counts,
                                               Elements offsets, DataType type, ReduceOp op);
CollectiveArguments all_to_all_v_arguments(const Caller& caller, const void* input, Elements input_counts,
                                           Elements input_offsets, void* output, Elements output_counts,
                                           Elements output_offsets, DataType type);

// The part of check_arguments() that is about blocks. Returns whether the call is in place.
bool check_blocks(const CollectiveArguments& arguments, int rank, const std::string& communicator);

}  // namespace tutti
