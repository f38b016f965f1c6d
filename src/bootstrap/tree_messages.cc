#include "bootstrap/tree_messages.h"

#include <cstring>

#include "base/text.h"
#include "base/utf8.h"

namespace tutti {
namespace {

[[noreturn]] void too_many() {
  throw Error(ErrorCode::kMismatch, "a message of the control tree tells of more ranks than there are");
}

}  // namespace

ScopeId scope_id(const std::array<std::byte, 16>& communicator) {
  return ByteReader(communicator, "a communicator's name").u64();
}

std::vector<std::byte> TreeNews::encode() const {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(departed.size()));
  for (const int rank : departed) writer.u32(static_cast<std::uint32_t>(rank));
  writer.u32(static_cast<std::uint32_t>(goodbyes.size()));
  for (const Goodbye& goodbye : goodbyes) {
    writer.u64(goodbye.scope);
    writer.u32(static_cast<std::uint32_t>(goodbye.members));
    writer.u32(static_cast<std::uint32_t>(goodbye.rank));
    writer.u64(goodbye.last_call);
  }
  return writer.take();
}

TreeNews TreeNews::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "the news of the control tree");
  TreeNews news;
  const std::uint32_t departed = reader.u32();
  if (departed > static_cast<std::uint32_t>(ranks)) too_many();
  for (std::uint32_t i = 0; i < departed; ++i) news.departed.push_back(reader.rank(ranks));
  const std::uint32_t goodbyes = reader.u32();
  if (goodbyes > kMostGoodbyes) too_many();
  for (std::uint32_t i = 0; i < goodbyes; ++i) {
    Goodbye goodbye;
    goodbye.scope = reader.u64();
    goodbye.members = reader.rank(ranks + 1);
    goodbye.rank = reader.rank(goodbye.members);
    goodbye.last_call = reader.u64();
    news.goodbyes.push_back(goodbye);
  }
  reader.finish();
  return news;
}

std::size_t TreeNews::max_bytes(int ranks) { return 8 + 4 * static_cast<std::size_t>(ranks) + 24 * kMostGoodbyes; }

std::vector<std::byte> Death::encode() const {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(rank));
  writer.u32(static_cast<std::uint32_t>(observer));
  writer.text(cut_text(trouble, kMaxTrouble));
  return writer.take();
}

Death Death::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "the news of a death");
  Death death;
  death.rank = reader.rank(ranks);
  death.observer = reader.rank(ranks);
  death.trouble = printable(reader.text(kMaxTrouble));
  reader.finish();
  return death;
}

std::vector<std::byte> ScopePoison::encode() const {
  ByteWriter writer;
  writer.u64(scope);
  writer.raw(poison.encode());
  return writer.take();
}

ScopePoison ScopePoison::decode(std::span<const std::byte> payload) {
  ByteReader reader(payload, "the failure of a communicator");
  ScopePoison poison;
  poison.scope = reader.u64();
  poison.poison = Poison::decode(reader);
  reader.finish();
  return poison;
}

std::vector<std::byte> Comparison::encode() const {
  ByteWriter writer;
  writer.u64(scope);
  writer.u32(static_cast<std::uint32_t>(rank));
  writer.u64(call.sequence);
  writer.u64(call.signature);
  writer.text(std::string_view(call.text, ::strnlen(call.text, sizeof call.text)));
  return writer.take();
}

Comparison Comparison::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "the description of a call");
  Comparison comparison;
  comparison.scope = reader.u64();
  comparison.rank = reader.rank(ranks);
  comparison.call.sequence = reader.u64();
  comparison.call.signature = reader.u64();
  const std::string text = printable(reader.text(sizeof comparison.call.text - 1));
  std::memcpy(comparison.call.text, text.data(), text.size());
  reader.finish();
  return comparison;
}

std::vector<std::byte> CallBack::encode() const {
  ByteWriter writer;
  writer.u64(scope);
  writer.u32(static_cast<std::uint32_t>(from));
  writer.u32(static_cast<std::uint32_t>(to));
  writer.text(cut_text(trouble, kMaxTrouble));
  return writer.take();
}

CallBack CallBack::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "the request for a connection");
  CallBack request;
  request.scope = reader.u64();
  request.from = reader.rank(ranks);
  request.to = reader.rank(ranks);
  request.trouble = printable(reader.text(kMaxTrouble));
  reader.finish();
  return request;
}

}  // namespace tutti
