#include "bootstrap/introduction.h"

#include <fmt/format.h>

#include "base/text.h"
#include "base/utf8.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxAgreementText = 4096;

}  // namespace

std::vector<std::byte> Introduction::encode() const {
  ByteWriter writer;
  writer.u32(version);
  writer.u64(agreement);
  writer.text(cut_text(agreement_text, kMaxAgreementText));
  writer.u32(patience_ms);
  encode_host(writer, host);
  writer.u32(pid);
  writer.u16(port);
  return writer.take();
}

Introduction Introduction::decode(std::span<const std::byte> payload) {
  ByteReader reader(payload, "the introduction of a rank");
  Introduction introduction;
  introduction.version = reader.u32();
  if (introduction.version != kProtocolVersion) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("it speaks version {} of the protocol and the root version {}: install one version of tutti "
                    "on all hosts",
                    introduction.version, kProtocolVersion));
  }
  introduction.agreement = reader.u64();
  introduction.agreement_text = reader.text(kMaxAgreementText);
  introduction.patience_ms = reader.u32();
  introduction.host = decode_host(reader);
  introduction.pid = reader.u32();
  introduction.port = reader.u16();
  reader.finish();
  return introduction;
}

std::vector<std::byte> Assignment::encode() const {
  ByteWriter writer;
  writer.raw(nonce);
  writer.u32(static_cast<std::uint32_t>(parent));
  writer.u32(static_cast<std::uint32_t>(parent_addresses.size()));
  for (const std::string& address : parent_addresses) writer.text(address);
  writer.u16(parent_port);
  writer.blob(table);
  return writer.take();
}

Assignment Assignment::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "the root's assignment");
  Assignment assignment;
  assignment.nonce = reader.array<std::tuple_size_v<Nonce>>();
  assignment.parent = static_cast<int>(reader.u32());
  const std::uint32_t count = reader.u32();
  for (std::uint32_t i = 0; i < count && i < kMaxAddresses; ++i)
    assignment.parent_addresses.push_back(reader.text(kMaxName));
  assignment.parent_port = reader.u16();
  const std::span<const std::byte> table = reader.blob(RankTable::max_bytes(ranks));
  assignment.table.assign(table.begin(), table.end());
  reader.finish();
  if (assignment.parent < -1 || assignment.parent >= ranks) {
    throw Error(ErrorCode::kMismatch, "the root's assignment names a parent that does not exist");
  }
  return assignment;
}

std::vector<std::byte> Poison::encode() const {
  ByteWriter writer;
  writer.u8(static_cast<std::uint8_t>(code));
  writer.u32(static_cast<std::uint32_t>(peer));
  writer.text(cut_text(reason, kMaxReasonBytes));
  return writer.take();
}

Poison Poison::decode(ByteReader& reader) {
  Poison poison;
  const std::uint8_t code = reader.u8();
  poison.code =
      code <= static_cast<std::uint8_t>(ErrorCode::kUnsupported) ? static_cast<ErrorCode>(code) : ErrorCode::kRemote;
  poison.peer = static_cast<int>(reader.u32());
  poison.reason = printable(reader.text(kMaxReasonBytes));
  return poison;
}

}  // namespace tutti
