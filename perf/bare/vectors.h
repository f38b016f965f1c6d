#pragma once

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>

// The loops that a bare exchange is made of, in the widest vectors of the machine that compiles them. `from` and `to`
// are aligned to 64 bytes; lengths are arbitrary.
namespace tutti::perf::bare {

namespace hn = hwy::HWY_NAMESPACE;

enum class Store { kOrdinary, kStreaming };

using Floats = hn::ScalableTag<float>;

template <Store store, typename Vector>
inline void put(Vector value, float* to) {
  if constexpr (store == Store::kStreaming) {
    hn::Stream(value, Floats(), to);
  } else {
    hn::Store(value, Floats(), to);
  }
}

// Streaming stores are seen by others only after a fence.
template <Store store>
inline void flush() {
  if constexpr (store == Store::kStreaming) hwy::FlushStream();
}

template <Store store>
inline void fill(float* to, std::size_t count, float value) {
  const Floats d;
  const auto values = hn::Set(d, value);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) put<store>(values, to + i);
  for (; i < count; ++i) to[i] = value;
  flush<store>();
}

template <Store store>
inline void copy(const float* from, float* to, std::size_t count) {
  const Floats d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) put<store>(hn::Load(d, from + i), to + i);
  for (; i < count; ++i) to[i] = from[i];
  flush<store>();
}

// to = a + b
template <Store store>
inline void add(const float* a, const float* b, float* to, std::size_t count) {
  const Floats d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    put<store>(hn::Add(hn::Load(d, a + i), hn::Load(d, b + i)), to + i);
  }
  for (; i < count; ++i) to[i] = a[i] + b[i];
  flush<store>();
}

// own = there = a + b
template <Store store_own, Store store_there>
inline void add_to_both(const float* a, const float* b, float* own, float* there, std::size_t count) {
  const Floats d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto sum = hn::Add(hn::Load(d, a + i), hn::Load(d, b + i));
    put<store_own>(sum, own + i);
    put<store_there>(sum, there + i);
  }
  for (; i < count; ++i) own[i] = there[i] = a[i] + b[i];
  if (store_own == Store::kStreaming || store_there == Store::kStreaming) hwy::FlushStream();
}

// Reads everything. Several sums, so that no addition waits for the one before.
inline float sum(const float* from, std::size_t count) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::Load(d, from + i));
    s1 = hn::Add(s1, hn::Load(d, from + i + lanes));
    s2 = hn::Add(s2, hn::Load(d, from + i + 2 * lanes));
    s3 = hn::Add(s3, hn::Load(d, from + i + 3 * lanes));
  }
  float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < count; ++i) total += from[i];
  return total;
}

}  // namespace tutti::perf::bare
