#include "bootstrap/survivor_messages.h"

namespace tutti {
namespace {

[[noreturn]] void malformed(const char* what) {
  throw Error(ErrorCode::kMismatch,
              std::string("a message between survivors ") + what + ": do all ranks run the same version of tutti?");
}

}  // namespace

std::vector<std::byte> SurvivorMessage::encode() const {
  ByteWriter writer;
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.u64(round);
  writer.u32(static_cast<std::uint32_t>(leader));
  writer.raw(nonce);
  writer.u16(port);
  writer.u32(static_cast<std::uint32_t>(members.size()));
  for (const int member : members) writer.u32(static_cast<std::uint32_t>(member));
  writer.raw(refusal.encode());
  return writer.take();
}

SurvivorMessage SurvivorMessage::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "a message between survivors");
  SurvivorMessage message;
  const std::uint8_t kind = reader.u8();
  if (kind > static_cast<std::uint8_t>(Kind::kRefused)) malformed("is of an unknown kind");
  message.kind = static_cast<Kind>(kind);
  message.round = reader.u64();
  message.leader = reader.rank(ranks);
  message.nonce = reader.array<std::tuple_size_v<Nonce>>();
  message.port = reader.u16();
  const std::uint32_t count = reader.u32();
  if (count > static_cast<std::uint32_t>(ranks)) malformed("names too many members");
  for (std::uint32_t i = 0; i < count; ++i) {
    const int member = reader.rank(ranks);
    if (!message.members.empty() && member <= message.members.back()) malformed("names members out of order");
    message.members.push_back(member);
  }
  message.refusal = Poison::decode(reader);
  reader.finish();
  return message;
}

}  // namespace tutti
