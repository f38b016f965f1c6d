#include "reduce/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/copy.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void stream_bytes(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t head = std::min((0 - reinterpret_cast<std::uintptr_t>(to)) & (lanes - 1), bytes);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; bytes - at >= 4 * lanes; at += 4 * lanes) {
    const auto a = hn::LoadU(d, from + at);
    const auto b = hn::LoadU(d, from + at + lanes);
    const auto c = hn::LoadU(d, from + at + 2 * lanes);
    const auto e = hn::LoadU(d, from + at + 3 * lanes);
    hn::Stream(a, d, to + at);
    hn::Stream(b, d, to + at + lanes);
    hn::Stream(c, d, to + at + 2 * lanes);
    hn::Stream(e, d, to + at + 3 * lanes);
  }
  for (; bytes - at >= lanes; at += lanes) hn::Stream(hn::LoadU(d, from + at), d, to + at);
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(stream_bytes);

void copy_bytes(void* to, const void* from, std::size_t bytes, StoreKind stores) {
  if (bytes == 0) return;
  if (stores == StoreKind::kOrdinary) {
    std::memcpy(to, from, bytes);
    return;
  }
  HWY_DYNAMIC_DISPATCH(stream_bytes)(static_cast<std::uint8_t*>(to), static_cast<const std::uint8_t*>(from), bytes);
}

}  // namespace tutti
#endif
