#include "transport/tcp/frame.h"

#include <concepts>

namespace tutti {
namespace {

constexpr std::byte kMagic[2] = {std::byte{'T'}, std::byte{'t'}};

template <std::unsigned_integral T>
void store(std::byte* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(value >> (8 * i) & 0xFF);
}

template <std::unsigned_integral T>
T load(const std::byte* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(from[i]) << (8 * i);
  return value;
}

}  // namespace

void FrameHeader::encode(std::byte* to) const {
  to[0] = kMagic[0];
  to[1] = kMagic[1];
  to[2] = static_cast<std::byte>(kind);
  to[3] = static_cast<std::byte>(channel);
  store(to + 4, length);
  store(to + 8, number);
  store(to + 16, signature);
  store(to + 24, credit);
}

std::optional<FrameHeader> FrameHeader::decode(const std::byte* from) {
  if (from[0] != kMagic[0] || from[1] != kMagic[1]) return std::nullopt;
  FrameHeader header;
  header.kind = static_cast<FrameKind>(from[2]);
  header.channel = std::to_integer<std::uint8_t>(from[3]);
  header.length = load<std::uint32_t>(from + 4);
  header.number = load<std::uint64_t>(from + 8);
  header.signature = load<std::uint64_t>(from + 16);
  header.credit = load<std::uint64_t>(from + 24);
  const bool no_message = header.length == 0 && header.number == 0 && header.signature == 0;
  switch (header.kind) {
    case FrameKind::kMessage:
      return header;
    case FrameKind::kCredit:
      if (!no_message) return std::nullopt;
      return header;
    case FrameKind::kAccept:
      if (!no_message || header.channel != 0 || header.credit != 0) return std::nullopt;
      return header;
  }
  return std::nullopt;
}

}  // namespace tutti
