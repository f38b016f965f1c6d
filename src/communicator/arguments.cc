#include "communicator/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/arithmetic.h"
#include "communicator/vector_arguments.h"
#include "transport/shm/registered_memory.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr double kTwoTo63 = 9'223'372'036'854'775'808.0;

bool is_whole(double value) {
  const DefaultArithmetic arithmetic;  // it may be NaN
  return value == std::trunc(value) && value >= -kTwoTo63 && value < kTwoTo63;
}

// How far a buffer with these blocks reaches.
std::size_t elements_to_the_end(const BlockList& list) {
  std::size_t end = 0;
  for (std::size_t block = 0; block < list.blocks; ++block) {
    if (list.counts[block] > 0) end = std::max(end, list.offsets[block] + list.counts[block]);
  }
  return end;
}

class Checker {
 public:
  Checker(const CollectiveArguments& arguments, int rank, int ranks, const std::string& communicator)
      : arguments_(arguments), rank_(rank), ranks_(ranks), communicator_(communicator) {}

  bool run() const {
    check_type_and_size();
    check_kinds();
    if (arguments_.blocks != nullptr) return check_blocks(arguments_, rank_, communicator_);
    const BufferBlocks blocks = buffer_blocks(arguments_.collective, rank_, ranks_, arguments_.root);
    check_buffer(arguments_.input, blocks.input, "input");
    check_buffer(arguments_.output, blocks.output, "output");
    return check_overlap(blocks);
  }

  void check_type_and_size() const {
    if (static_cast<unsigned>(arguments_.type) >= kDataTypes) {
      reject("{} is no element type", static_cast<int>(arguments_.type));
    }
    const std::size_t largest = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    const std::size_t per_element = element_size(arguments_.type) * static_cast<std::size_t>(ranks_);
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(arguments_.count, per_element, &bytes) || bytes > largest) {
      reject("count {} is too large: {} blocks of {} elements do not fit into memory", arguments_.count, ranks_,
             arguments_.count);
    }
  }

 private:
  template <class... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} on \"{}\": {}", name(arguments_.collective), communicator_,
                                                         fmt::format(format, std::forward<Args>(args)...)));
  }

  void check_kinds() const {
    if (is_rooted(arguments_.collective) && (arguments_.root < 0 || arguments_.root >= ranks_)) {
      reject("root {} is out of range: there are ranks 0 to {}", arguments_.root, ranks_ - 1);
    }
    if (!reduces(arguments_.collective)) return;
    const ReduceOp op = arguments_.op;
    if (static_cast<unsigned>(op.kind()) >= ReduceOp::kKinds) reject("{} is no reduction", static_cast<int>(op.kind()));
    if (!supports(op, arguments_.type)) {
      reject("{} is not defined for {}: bitwise operations take integers", name(op), name(arguments_.type));
    }
    if (op.kind() == ReduceOp::Kind::kPreMulSum && !is_floating(arguments_.type) && !is_whole(op.scalar())) {
      reject("the scalar {} of mulsum is no whole number of 64 bits, and {} is an integer type", op.scalar(),
             name(arguments_.type));
    }
  }

  void check_buffer(const void* buffer, std::size_t blocks, const char* what) const {
    if (blocks == 0 || arguments_.count == 0) return;
    if (buffer == nullptr) reject("{} is null, but the count is {}", what, arguments_.count);
    if ((reinterpret_cast<std::uintptr_t>(buffer) & (element_size(arguments_.type) - 1)) != 0) {  // a power of two
      reject("{} {} is not aligned to its elements of {} bytes", what, buffer, element_size(arguments_.type));
    }
  }

  bool check_overlap(const BufferBlocks& blocks) const {
    if (blocks.input == 0 || blocks.output == 0 || arguments_.count == 0) return false;
    const std::size_t block = arguments_.count * element_size(arguments_.type);
    const auto input = reinterpret_cast<std::uintptr_t>(arguments_.input);
    const auto output = reinterpret_cast<std::uintptr_t>(arguments_.output);
    const std::uintptr_t own = block * static_cast<std::size_t>(rank_);
    // In place as NCCL defines it: the single block lies where this rank's block lies among the many.
    const bool in_place =
        input + (blocks.input > blocks.output ? own : 0) == output + (blocks.output > blocks.input ? own : 0);
    const bool overlap = input < output + blocks.output * block && output < input + blocks.input * block;
    if (overlap && !in_place) {
      const char* rule = blocks.input == blocks.output  ? "input == output"
                         : blocks.input < blocks.output ? "input == output + rank*count"
                                                        : "output == input + rank*count";
      reject("input and output overlap; use separate buffers, or call in place with {}", rule);
    }
    return in_place;
  }

  const CollectiveArguments& arguments_;
  int rank_;
  int ranks_;
  const std::string& communicator_;
};

}  // namespace

BufferBlocks buffer_blocks(Collective collective, int rank, int ranks, int root) {
  const auto all = static_cast<std::size_t>(ranks);
  const bool at_root = rank == root;
  switch (even_form(collective)) {
    case Collective::kAllReduce:
      return {1, 1};
    case Collective::kAllGather:
      return {1, all};
    case Collective::kReduceScatter:
      return {all, 1};
    case Collective::kBroadcast:
      return {at_root ? 1u : 0u, 1};
    case Collective::kReduce:
      return {1, at_root ? 1u : 0u};
    case Collective::kGather:
      return {1, at_root ? all : 0};
    case Collective::kScatter:
      return {at_root ? all : 0, 1};
    case Collective::kAllToAll:
      return {all, all};
    default:  // a barrier
      return {0, 0};
  }
}

bool check_closely(const CollectiveArguments& arguments, int rank, int ranks, const std::string& communicator) {
  return Checker(arguments, rank, ranks, communicator).run();
}

void check_memory(const CollectiveArguments& arguments, int rank, int ranks, const std::string& communicator) {
  const auto check = [&](const char* what, const void* buffer, std::size_t elements) {
    if (elements == 0) return;
    try {
      RegisteredMemory::of_process().check(buffer, elements * element_size(arguments.type));
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("{} on \"{}\": {}: {}", name(arguments.collective), communicator, what, error.what()));
    }
  };
  if (arguments.blocks != nullptr) {
    const BlockTable& table = arguments.blocks->table();
    check("input", arguments.input, elements_to_the_end(table.input));
    check("output", arguments.output, elements_to_the_end(table.output));
    return;
  }
  const BufferBlocks blocks = buffer_blocks(arguments.collective, rank, ranks, arguments.root);
  check("input", arguments.input, blocks.input * arguments.count);
  check("output", arguments.output, blocks.output * arguments.count);
}

void check_size(Collective collective, std::size_t count, DataType type, int ranks, const std::string& communicator) {
  const CollectiveArguments arguments{collective, nullptr, nullptr, count, type, kSum, 0};
  Checker(arguments, 0, ranks, communicator).check_type_and_size();
}

void check_transfer(const TransferArguments& arguments, int ranks, const std::string& communicator) {
  const auto reject = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} on \"{}\": {}", arguments.call, communicator, what));
  };
  if (static_cast<unsigned>(arguments.type) >= kDataTypes) {
    reject(fmt::format("{} is no element type", static_cast<int>(arguments.type)));
  }
  const bool any = arguments.any_allowed && arguments.peer == kAnySource;
  if (!any && (arguments.peer < 0 || arguments.peer >= ranks)) {
    reject(fmt::format("rank {} is out of range: there are ranks 0 to {}", arguments.peer, ranks - 1));
  }
  const std::size_t size = element_size(arguments.type);
  if (arguments.count > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / size) {
    reject(fmt::format("count {} is too large", arguments.count));
  }
  if (arguments.count == 0) return;
  if (arguments.buffer == nullptr) reject(fmt::format("the buffer is null, but the count is {}", arguments.count));
  if (reinterpret_cast<std::uintptr_t>(arguments.buffer) % size != 0) {
    reject(fmt::format("buffer {} is not aligned to its elements of {} bytes", arguments.buffer, size));
  }
}

std::string describe(const CallShape& shape) {
  if (is_split(shape)) return "split";
  if (shape.collective == Collective::kBarrier) return name(shape.collective);
  if (shape.collective == Collective::kAllToAllV) return fmt::format("{} {}", name(shape.collective), name(shape.type));
  std::string text = fmt::format("{} {}×{}", name(shape.collective), name(shape.type), shape.count);
  if (reduces(shape.collective)) text += fmt::format(" {}", name(ReduceOp(shape.op)));
  if (is_vector(shape.collective)) text += fmt::format(" in blocks #{:08x}", shape.root);
  if (is_rooted(shape.collective)) text += fmt::format(" root {}", shape.root);
  return text;
}

}  // namespace tutti
