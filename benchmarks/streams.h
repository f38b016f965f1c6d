#pragma once

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

// What a reduction is held against: a pass that reads so many streams and writes one, with the cheapest of operations
// between them, in the widest vectors of the machine that compiles it.
namespace tutti::benchmark {

inline constexpr int kMaxStreams = 8;

// REQUIRES: everything is aligned to 64 bytes and a multiple of that long.
template <int kStreams, bool kPastCaches>
inline void merge_streams(const std::uint8_t* const* from, std::uint8_t* to, std::size_t bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint8_t> d;
  const std::uint8_t* streams[kStreams];
  for (int s = 0; s < kStreams; ++s) streams[s] = from[s];
  for (std::size_t at = 0; at < bytes; at += hn::Lanes(d)) {
    auto value = hn::Load(d, streams[0] + at);
    for (int s = 1; s < kStreams; ++s) value = hn::Xor(value, hn::Load(d, streams[s] + at));
    if constexpr (kPastCaches) {
      hn::Stream(value, d, to + at);
    } else {
      hn::Store(value, d, to + at);
    }
  }
  if constexpr (kPastCaches) hwy::FlushStream();
}

// 1 <= streams <= kMaxStreams.
inline void merge_streams(int streams, bool past_caches, const std::uint8_t* const* from, std::uint8_t* to,
                          std::size_t bytes) {
  [&]<int... kLess>(std::integer_sequence<int, kLess...>) {
    const auto run = [&]<int kStreams>(std::integral_constant<int, kStreams>) {
      if (streams != kStreams) return;
      if (past_caches) {
        merge_streams<kStreams, true>(from, to, bytes);
      } else {
        merge_streams<kStreams, false>(from, to, bytes);
      }
    };
    (run(std::integral_constant<int, kLess + 1>()), ...);
  }
  (std::make_integer_sequence<int, kMaxStreams>());
}

}  // namespace tutti::benchmark
