#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "communicator/block_counts.h"
#include "executor/signature.h"
#include "tutti/types.h"

namespace tutti {

// The root of an all_gather that is an exchange of a split, by which it differs from the caller's own.
inline constexpr int kSplitMark = 0x53504C54;
inline bool is_split(const CallShape& shape) {
  return shape.collective == Collective::kAllGather && shape.root == kSplitMark;
}

// One collective as the caller passed it.
struct CollectiveArguments {
  Collective collective = Collective::kBarrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kU8;
  ReduceOp op = kSum;
  int root = 0;
  // Of a vector form; null: blocks of `count` elements. Shared with the call, which may outlive the caller's arrays.
  std::shared_ptr<const BlockCounts> blocks = nullptr;
};

// Blocks of `count` elements that this rank's input and output have; 0 where the buffer does not matter.
struct BufferBlocks {
  std::size_t input;
  std::size_t output;
};
BufferBlocks buffer_blocks(Collective collective, int rank, int ranks, int root);
// Of the larger side, on the rank that has most: what sizes are reported and algorithms chosen by.
constexpr std::size_t largest_blocks(Collective collective, int ranks) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return 1;
    case Collective::kBarrier:
      return 0;
    default:
      return static_cast<std::size_t>(ranks);
  }
}

// What all ranks must agree on.
inline CallShape shape_of(const CollectiveArguments& arguments) {
  CallShape shape{arguments.collective, arguments.type, arguments.op.kind(), static_cast<std::uint32_t>(arguments.root),
                  arguments.count};
  if (arguments.blocks != nullptr && arguments.collective != Collective::kAllToAllV) {
    shape.count = arguments.blocks->larger_side();
    shape.root = arguments.blocks->digest();
  }
  return shape;
}

// Bytes of the larger side, on the rank that has most: what sizes are reported and algorithms chosen by.
inline std::size_t size_of(const CollectiveArguments& arguments, int ranks) {
  const std::size_t elements = arguments.blocks != nullptr
                                   ? arguments.blocks->larger_side()
                                   : arguments.count * largest_blocks(arguments.collective, ranks);
  return elements * element_size(arguments.type);
}

// Whether a call is in place, of which it can be seen at a glance that nothing is wrong: a common operation, two
// separate buffers that all ranks use, or the same one for an all_reduce. Nothing: it takes a closer look.
inline std::optional<bool> in_place_at_a_glance(const CollectiveArguments& arguments, int ranks) {
  constexpr std::size_t kMostElements = std::size_t{1} << 40;  // of a block: sizes of all buffers fit into a word
  if (arguments.collective == Collective::kBarrier) return false;
  if (arguments.count > kMostElements || arguments.blocks != nullptr ||
      static_cast<unsigned>(arguments.type) >= kDataTypes || arguments.op.kind() > ReduceOp::Kind::kAvg ||
      static_cast<unsigned>(arguments.root) >= static_cast<unsigned>(ranks)) {
    return std::nullopt;
  }
  const std::size_t size = element_size(arguments.type);  // a power of two
  const auto input = reinterpret_cast<std::uintptr_t>(arguments.input);
  const auto output = reinterpret_cast<std::uintptr_t>(arguments.output);
  if (input == 0 || output == 0 || ((input | output) & (size - 1)) != 0) return std::nullopt;
  const std::size_t bytes = arguments.count * size * static_cast<std::size_t>(ranks);
  if (input + bytes <= output || output + bytes <= input) return false;
  if (input == output && arguments.collective == Collective::kAllReduce) return true;
  return std::nullopt;
}

// Checks everything that can be checked on one rank. Returns whether the call is in place. Throws
// Error(kInvalidArgument) that names the call and the communicator; nothing has happened then.
bool check_closely(const CollectiveArguments& arguments, int rank, int ranks, const std::string& communicator);
inline bool check_arguments(const CollectiveArguments& arguments, int rank, int ranks,
                            const std::string& communicator) {
  const std::optional<bool> in_place = in_place_at_a_glance(arguments, ranks);
  return in_place ? *in_place : check_closely(arguments, rank, ranks, communicator);
}

// Checks that registered memory is still there, of a call whose arguments were checked: asks the kernel. Throws
// Error(kInvalidArgument).
void check_memory(const CollectiveArguments& arguments, int rank, int ranks, const std::string& communicator);

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

// "all_reduce f32×1000 sum", "broadcast i8×4 root 2", "all_gather_v f32×1000 in blocks #1f0c3a52", where the number
// stands for the list of counts.
std::string describe(const CallShape& shape);

}  // namespace tutti
