#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tutti {

// What a peer wrote into shared memory may change at any moment if the memory of that peer is damaged. So each word
// that decides about an address, a length or a count is loaded exactly once, and what was checked is what is used. A
// compiler may load an ordinary variable as often as it likes.
inline std::uint64_t read_once(const std::uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED); }

// The same for a structure of whole words. REQUIRES: `from` is aligned to a word.
template <class T>
T read_once_as(const std::byte* from) {
  static_assert(sizeof(T) % sizeof(std::uint64_t) == 0);
  std::array<std::uint64_t, sizeof(T) / sizeof(std::uint64_t)> words;
  const auto* const shared = reinterpret_cast<const std::uint64_t*>(from);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = read_once(shared[i]);
  return std::bit_cast<T>(words);
}

}  // namespace tutti
