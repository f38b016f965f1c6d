#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace tutti {

// A public random value that names one communicator.
using Nonce = std::array<std::byte, 16>;
Nonce random_nonce();

// A 256-bit secret. Copied by value, wiped when it goes; never logged, printed or compared in variable time. A new one
// is all zero: no secret.
class Key {
 public:
  static constexpr std::size_t kBytes = 32;

  Key() = default;
  explicit Key(std::span<const std::byte, kBytes> bytes);
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  ~Key();

  static Key random();
  // From a pass phrase or a launcher's key. Texts that were meant to be random are: nothing is stretched.
  static Key from_text(std::string_view text);

  // Another key that tells nothing about this one, for one purpose and, with `context`, one communicator.
  Key derive(std::string_view purpose, std::span<const std::byte> context = {}) const;

  // Keyed hash (BLAKE2b) of the parts, each with its length.
  std::array<std::byte, kBytes> authenticate(std::string_view role, std::span<const std::byte> first,
                                             std::span<const std::byte> second = {}) const;

  bool empty() const;
  std::span<const std::byte, kBytes> bytes() const { return bytes_; }

 private:
  std::array<std::byte, kBytes> bytes_{};
};

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace tutti
