#include "bootstrap/incoming_frames.h"

#include "base/bytes.h"

namespace tutti {
namespace {

constexpr std::size_t kKeepBytes = 16 * 1024;

}  // namespace

std::optional<IncomingFrames::Frame> IncomingFrames::next() {
  const std::span<const std::byte> rest = std::span(bytes_).subspan(taken_);
  if (trouble_ != nullptr || rest.size() < kFrameHeaderBytes) return std::nullopt;
  ByteReader header(rest.first(kFrameHeaderBytes), "a frame");
  const std::size_t length = header.u32();
  const std::uint8_t type = header.u8();
  if (length > limit_ || type >= kFrameTypes) {
    trouble_ = "it sent something that is no message of this library's version";
    return std::nullopt;
  }
  const std::size_t bytes = kFrameHeaderBytes + length;
  if (rest.size() < bytes + kFrameTagBytes) return std::nullopt;
  if (!equal_in_constant_time(rest.subspan(bytes, kFrameTagBytes), frame_tag(key_, received_++, rest.first(bytes)))) {
    trouble_ = "something between the two changed what was sent: does another program or user hold the root's port?";
    return std::nullopt;
  }
  taken_ += bytes + kFrameTagBytes;
  return Frame{static_cast<FrameType>(type), rest.subspan(kFrameHeaderBytes, length)};
}

void IncomingFrames::drop_taken() {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  if (bytes_.empty() && bytes_.capacity() > kKeepBytes) bytes_.shrink_to_fit();
}

}  // namespace tutti
