#include "bootstrap/frame.h"

#include <algorithm>

#include "base/bytes.h"

namespace tutti {

Frame make_frame(FrameType type, std::span<const std::byte> payload) {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(kFrameHeaderBytes + payload.size());
  for (int shift = 0; shift < 32; shift += 8) bytes->push_back(static_cast<std::byte>(payload.size() >> shift & 0xFF));
  bytes->push_back(static_cast<std::byte>(type));
  bytes->insert(bytes->end(), payload.begin(), payload.end());
  return bytes;
}

FrameTag frame_tag(const Key& key, std::uint64_t number, std::span<const std::byte> frame) {
  ByteWriter counter;
  counter.u64(number);
  const auto hash = key.authenticate("frame", counter.view(), frame);
  FrameTag tag;
  std::copy_n(hash.begin(), tag.size(), tag.begin());
  return tag;
}

}  // namespace tutti
