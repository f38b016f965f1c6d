#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

namespace tutti::fuzz {

// Reads an input as a list of decisions. It never ends: behind its last byte come zeros.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : left_(bytes) {}

  bool ended() const { return left_.empty(); }
  std::uint8_t byte() { return integer<std::uint8_t>(); }
  // 0 … limit − 1, of one byte.
  unsigned below(unsigned limit) { return byte() % limit; }
  template <std::unsigned_integral T>
  T integer() {
    std::uint64_t value = 0;
    const std::span<const std::byte> bytes = take(sizeof(T));
    for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    return static_cast<T>(value);
  }
  // At most so many bytes.
  std::span<const std::byte> take(std::size_t most) {
    const std::span<const std::byte> taken = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  // As many as the next byte says.
  std::span<const std::byte> blob() { return take(byte()); }
  std::span<const std::byte> rest() { return take(left_.size()); }

 private:
  std::span<const std::byte> left_;
};

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// A promise that the code under test makes; a broken one is a finding.
inline void require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "BROKEN PROMISE: %s\n", promise);
  std::abort();
}

}  // namespace tutti::fuzz
