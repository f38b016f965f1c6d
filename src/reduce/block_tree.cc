#include "reduce/block_tree.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "reduce/copy.h"

namespace tutti {
namespace {

template <class T>
void fill(void* block, std::size_t elements, T value) {
  for (std::size_t i = 0; i < elements; ++i) std::memcpy(static_cast<T*>(block) + i, &value, sizeof(T));
}

}  // namespace

BlockTree::BlockTree(const ReductionPlan& plan, DataType type, int divisor, std::size_t elements, int mapped_source)
    : plan_(plan), divisor_(divisor), mapped_source_(plan.multiply ? mapped_source : -1) {
  if (plan.multiply) fill_factors(type, std::min(elements, kBlockBytes / plan.lane_bytes));
}

void BlockTree::fill_factors(DataType type, std::size_t elements) {
  if (type == DataType::kF64) return fill<double>(factors_.bytes, elements, plan_.pass.factor);
  if (is_floating(type)) return fill<float>(factors_.bytes, elements, static_cast<float>(plan_.pass.factor));
  const std::uint64_t factor = plan_.pass.whole_factor;
  switch (plan_.lane_bytes) {
    case 1:
      return fill(factors_.bytes, elements, static_cast<std::uint8_t>(factor));
    case 2:
      return fill(factors_.bytes, elements, static_cast<std::uint16_t>(factor));
    case 4:
      return fill(factors_.bytes, elements, static_cast<std::uint32_t>(factor));
    default:
      return fill(factors_.bytes, elements, factor);
  }
}

void BlockTree::evaluate(const void* const* sources, int source_count, void* dst, void* dst2, std::size_t elements,
                         StoreKind stores) {
  const bool staged = dst2 == nullptr && stores == StoreKind::kStreaming;
  const std::size_t block_elements = kBlockBytes / plan_.lane_bytes;
  for (std::size_t at = 0; at < elements; at += block_elements) {
    const std::size_t count = std::min(block_elements, elements - at);
    std::byte* const place = static_cast<std::byte*>(dst) + at * plan_.element_bytes;
    std::byte* const out = staged ? result_.bytes : place;
    if (plan_.conversion) {
      evaluate_block(sources, source_count, levels_[0].bytes, at, count);
      plan_.conversion->narrow(reinterpret_cast<const float*>(levels_[0].bytes), out, count);
    } else {
      evaluate_block(sources, source_count, out, at, count);
    }
    if (plan_.division) plan_.division(out, count, divisor_);
    const std::size_t bytes = count * plan_.element_bytes;
    if (staged) copy_bytes(place, out, bytes, stores);
    if (dst2) copy_bytes(static_cast<std::byte*>(dst2) + at * plan_.element_bytes, out, bytes, stores);
  }
}

void BlockTree::evaluate_block(const void* const* sources, int source_count, void* out, std::size_t at,
                               std::size_t elements) {
  if (source_count <= kMaxFused) return combine_sources(sources, 0, source_count, true, out, at, elements);

  const int leaves = static_cast<int>(std::bit_floor(static_cast<unsigned>(source_count)));
  const int pairs = source_count - leaves;
  int filled = 0;
  for (int leaf = 0, source = 0; leaf < leaves; leaf += kLeaves) {
    // The tree of 4..8 sources is the subtree of four leaves of which the first ones are pairs.
    const int count = kLeaves + std::clamp(pairs - leaf, 0, kLeaves);
    combine_sources(sources, source, count, false, levels_[filled++].bytes, at, elements);
    source += count;
    // As a binary counter carries: subtrees of equal size are combined as soon as there are two.
    for (int merged = leaf / kLeaves + 1; merged % 2 == 0; merged /= 2) {
      --filled;
      const bool root = filled == 1 && leaf + kLeaves == leaves;
      const void* operands[] = {levels_[filled - 1].bytes, levels_[filled].bytes};
      combine_lanes(operands, 2, root, root ? out : levels_[filled - 1].bytes, elements);
    }
  }
}

void BlockTree::combine_sources(const void* const* sources, int first, int count, bool root, void* out, std::size_t at,
                                std::size_t elements) {
  const void* lanes[kMaxFused];
  for (int s = 0; s < count; ++s) {
    lanes[s] = lanes_of(sources[first + s], first + s == mapped_source_, inputs_[s], at, elements);
  }
  combine_lanes(lanes, count, root, out, elements);
}

void BlockTree::combine_lanes(const void* const* sources, int count, bool root, void* out, std::size_t elements) {
  const double divisor = root ? plan_.divisor : 0;
  if (count == 1 && divisor == 0) {
    if (out != sources[0]) std::memcpy(out, sources[0], elements * plan_.lane_bytes);
    return;
  }
  Pass pass = plan_.pass;
  pass.sources = sources;
  pass.dst = out;
  pass.elements = elements;
  pass.divisor = divisor;
  (*plan_.combine)[count](pass);
}

const void* BlockTree::lanes_of(const void* source, bool mapped, Block& block, std::size_t at, std::size_t elements) {
  const void* lanes = static_cast<const std::byte*>(source) + at * plan_.element_bytes;
  if (plan_.conversion) {
    plan_.conversion->widen(lanes, reinterpret_cast<float*>(block.bytes), elements);
    lanes = block.bytes;
  }
  if (!mapped) return lanes;
  const void* operands[] = {lanes, factors_.bytes};
  Pass pass = plan_.pass;
  pass.sources = operands;
  pass.dst = block.bytes;
  pass.elements = elements;
  (*plan_.multiply)[2](pass);
  return block.bytes;
}

}  // namespace tutti
