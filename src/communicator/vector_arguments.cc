#include "communicator/vector_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "tutti/error.h"

namespace tutti {
namespace {

template <class... Args>
[[noreturn]] void reject(Collective collective, const std::string& communicator, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{} on \"{}\": {}", name(collective), communicator,
                                                       fmt::format(format, std::forward<Args>(args)...)));
}

void check_lengths(Collective collective, const Caller& caller, Elements counts, Elements offsets, const char* side) {
  const auto ranks = static_cast<std::size_t>(caller.ranks);
  if (counts.size() != ranks) {
    reject(collective, caller.communicator, "{}counts has {} entries, but there are {} ranks", side, counts.size(),
           ranks);
  }
  if (!offsets.empty() && offsets.size() != ranks) {
    reject(collective, caller.communicator,
           "{}offsets has {} entries, but there are {} ranks: pass one for each, or none for blocks that lie one after "
           "the other",
           side, offsets.size(), ranks);
  }
}

// Where the bytes of a block lie.
struct Extent {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::size_t block;
};

class BlockChecker {
 public:
  BlockChecker(const CollectiveArguments& arguments, int rank, const std::string& communicator)
      : arguments_(arguments),
        table_(arguments.blocks->table()),
        element_bytes_(element_size(arguments.type)),
        rank_(static_cast<std::size_t>(rank)),
        communicator_(communicator) {}

  bool run() const {
    check_side(arguments_.input, table_.input, "input");
    check_side(arguments_.output, table_.output, "output");
    if (arguments_.collective == Collective::kAllToAllV) check_own_block();
    const std::vector<Extent> outputs = extents(arguments_.output, table_.output);
    check_outputs(outputs);
    return check_overlap(outputs);
  }

 private:
  template <class... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) const {
    tutti::reject(arguments_.collective, communicator_, format, std::forward<Args>(args)...);
  }

  // A list of one block stands for this rank's.
  std::size_t number(const BlockList& list, std::size_t block) const { return list.blocks == 1 ? rank_ : block; }

  void check_side(const void* base, const BlockList& list, const char* side) const {
    const auto largest = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / element_bytes_;
    std::size_t all = 0;
    for (std::size_t block = 0; block < list.blocks; ++block) {
      const std::size_t count = list.counts[block];
      if (count == 0) continue;
      if (count > largest || list.offsets[block] > largest - count || count > largest - all) {
        reject("block {} of the {}, {} elements at offset {}, does not fit into memory", number(list, block), side,
               count, list.offsets[block]);
      }
      all += count;
      if (base == nullptr) reject("{} is null, but block {} has {} elements", side, number(list, block), count);
      const auto address = reinterpret_cast<std::uintptr_t>(base);
      if (address % element_bytes_ != 0) {
        reject("{} {} is not aligned to its elements of {} bytes", side, base, element_bytes_);
      }
      if (address > std::numeric_limits<std::uintptr_t>::max() - (list.offsets[block] + count) * element_bytes_) {
        reject("block {} of the {}, {} elements at offset {}, does not fit into memory behind {}", number(list, block),
               side, count, list.offsets[block], base);
      }
    }
  }

  void check_own_block() const {
    const std::size_t given = table_.input.counts[rank_];
    const std::size_t taken = table_.output.counts[rank_];
    if (given == taken) return;
    reject("input_counts[{0}] is {1} and output_counts[{0}] is {2}: they are the same block, of this rank to itself",
           rank_, given, taken);
  }

  Extent extent(const void* base, const BlockList& list, std::size_t block) const {
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(base) + list.offsets[block] * element_bytes_;
    return {begin, begin + list.counts[block] * element_bytes_, number(list, block)};
  }

  // Blocks that are not empty, in the order in which they lie.
  std::vector<Extent> extents(const void* base, const BlockList& list) const {
    std::vector<Extent> all;
    all.reserve(list.blocks);
    for (std::size_t block = 0; block < list.blocks; ++block) {
      if (list.counts[block] > 0) all.push_back(extent(base, list, block));
    }
    const auto by_begin = [](const Extent& a, const Extent& b) { return a.begin < b.begin; };
    if (!std::is_sorted(all.begin(), all.end(), by_begin)) std::sort(all.begin(), all.end(), by_begin);
    return all;
  }

  void check_outputs(const std::vector<Extent>& outputs) const {
    for (std::size_t i = 1; i < outputs.size(); ++i) {
      if (outputs[i - 1].end <= outputs[i].begin) continue;
      reject("blocks {} and {} of the output overlap", std::min(outputs[i - 1].block, outputs[i].block),
             std::max(outputs[i - 1].block, outputs[i].block));
    }
  }

  // In place as NCCL defines it: the single block lies where this rank's block lies among the many.
  bool is_in_place() const {
    if (arguments_.collective == Collective::kAllToAllV) return false;
    const std::size_t in = table_.input.blocks == 1 ? 0 : rank_;
    const std::size_t out = table_.output.blocks == 1 ? 0 : rank_;
    if (table_.input.counts[in] == 0) return false;
    return extent(arguments_.input, table_.input, in).begin == extent(arguments_.output, table_.output, out).begin;
  }

  bool check_overlap(const std::vector<Extent>& outputs) const {
    const bool in_place = is_in_place();
    for (std::size_t block = 0; block < table_.input.blocks; ++block) {
      if (table_.input.counts[block] == 0) continue;
      const Extent input = extent(arguments_.input, table_.input, block);
      const auto first =
          std::upper_bound(outputs.begin(), outputs.end(), input.begin,
                           [](std::uintptr_t begin, const Extent& output) { return begin < output.end; });
      if (first == outputs.end() || first->begin >= input.end) continue;
      if (in_place && input.block == rank_ && first->block == rank_) continue;
      const char* rule = arguments_.collective == Collective::kAllToAllV ? "use separate buffers"
                         : table_.input.blocks == 1
                             ? "use separate buffers, or call in place with input == output + offsets[rank]"
                             : "use separate buffers, or call in place with output == input + offsets[rank]";
      reject("block {} of the input and block {} of the output overlap: {}", input.block, first->block, rule);
    }
    return in_place;
  }

  const CollectiveArguments& arguments_;
  const BlockTable& table_;
  std::size_t element_bytes_;
  std::size_t rank_;
  const std::string& communicator_;
};

CollectiveArguments with_blocks(Collective collective, const void* input, void* output, DataType type,
                                const BlockCounts::Side& inputs, const BlockCounts::Side& outputs) {
  CollectiveArguments arguments;
  arguments.collective = collective;
  arguments.input = input;
  arguments.output = output;
  arguments.type = type;
  arguments.blocks = std::make_shared<const BlockCounts>(inputs, outputs);
  return arguments;
}

}  // namespace

CollectiveArguments all_gather_v_arguments(const Caller& caller, const void* input, void* output, Elements counts,
                                           Elements offsets, DataType type) {
  check_lengths(Collective::kAllGatherV, caller, counts, offsets, "");
  const Elements own = counts.subspan(static_cast<std::size_t>(caller.rank), 1);
  return with_blocks(Collective::kAllGatherV, input, output, type, {own, {}}, {counts, offsets});
}

CollectiveArguments reduce_scatter_v_arguments(const Caller& caller, const void* input, void* output, Elements counts,
                                               Elements offsets, DataType type, ReduceOp op) {
  check_lengths(Collective::kReduceScatterV, caller, counts, offsets, "");
  const Elements own = counts.subspan(static_cast<std::size_t>(caller.rank), 1);
  CollectiveArguments arguments =
      with_blocks(Collective::kReduceScatterV, input, output, type, {counts, offsets}, {own, {}});
  arguments.op = op;
  return arguments;
}

CollectiveArguments all_to_all_v_arguments(const Caller& caller, const void* input, Elements input_counts,
                                           Elements input_offsets, void* output, Elements output_counts,
                                           Elements output_offsets, DataType type) {
  check_lengths(Collective::kAllToAllV, caller, input_counts, input_offsets, "input_");
  check_lengths(Collective::kAllToAllV, caller, output_counts, output_offsets, "output_");
  return with_blocks(Collective::kAllToAllV, input, output, type, {input_counts, input_offsets},
                     {output_counts, output_offsets});
}

bool check_blocks(const CollectiveArguments& arguments, int rank, const std::string& communicator) {
  return BlockChecker(arguments, rank, communicator).run();
}

}  // namespace tutti
