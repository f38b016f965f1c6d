#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti {

enum class FrameKind : std::uint8_t {
  kMessage = 1,  // header, then `length` bytes of payload
  kCredit = 2,   // an acknowledgement for which no message went the other way
  kAccept = 3,   // "this connection it is": first and only answer to one that the higher rank opened
};

// What stands before every payload on a TCP connection, little endian:
//   0 'T' 't'   2 kind   3 channel   4 length (32 bits)   8 number   16 signature   24 credit (64 bits each)
struct FrameHeader {
  static constexpr std::size_t kBytes = 32;

  FrameKind kind = FrameKind::kMessage;
  std::uint8_t channel = 0;
  std::uint32_t length = 0;     // bytes of payload
  std::uint64_t number = 0;     // of the message within its connection, from 1
  std::uint64_t signature = 0;  // of its call
  std::uint64_t credit = 0;     // the sender of this frame has consumed the reverse connection up to here

  void encode(std::byte* to) const;
  // Nothing when this is no header: another magic, an unknown kind, a field set that its kind does not have.
  static std::optional<FrameHeader> decode(const std::byte* from);
};

}  // namespace tutti
