#include "bootstrap/tree_messages.h"

#include <cstring>

namespace tutti {
namespace {

int read_rank(ByteReader& reader, int ranks) {
  const std::uint32_t rank = reader.u32();
  if (rank >= static_cast<std::uint32_t>(ranks)) {
    throw Error(ErrorCode::kMismatch, "a message of the control tree names a rank that does not exist");
  }
  return static_cast<int>(rank);
}

}  // namespace

std::vector<std::byte> TreeState::encode() const {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(left.size()));
  for (const auto& [rank, last_call] : left) {
    writer.u32(static_cast<std::uint32_t>(rank));
    writer.u64(last_call);
  }
  writer.u8(poison ? 1 : 0);
  if (poison) writer.raw(poison->encode());
  return writer.take();
}

TreeState TreeState::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "the state of the control tree");
  TreeState state;
  const std::uint32_t count = reader.u32();
  for (std::uint32_t i = 0; i < count; ++i) {
    const int rank = read_rank(reader, ranks);
    state.left.emplace_back(rank, reader.u64());
  }
  if (reader.u8() != 0) state.poison = Poison::decode(reader);
  reader.finish();
  return state;
}

std::size_t TreeState::max_bytes(int ranks) {
  return 4 + 12 * static_cast<std::size_t>(ranks) + 1 + 9 + kMaxReasonBytes;
}

std::vector<std::byte> Comparison::encode() const {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(rank));
  writer.u64(call.sequence);
  writer.u64(call.signature);
  writer.text(std::string_view(call.text, ::strnlen(call.text, sizeof call.text)));
  return writer.take();
}

Comparison Comparison::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "the description of a call");
  Comparison comparison;
  comparison.rank = read_rank(reader, ranks);
  comparison.call.sequence = reader.u64();
  comparison.call.signature = reader.u64();
  const std::string text = reader.text(sizeof comparison.call.text - 1);
  std::memcpy(comparison.call.text, text.data(), text.size());
  reader.finish();
  return comparison;
}

}  // namespace tutti
