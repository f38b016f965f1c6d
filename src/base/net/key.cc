#include "base/net/key.h"

#include <sodium.h>

#include <cstdint>
#include <cstring>

#include "base/random.h"

namespace tutti {
namespace {

const unsigned char* bytes_of(std::span<const std::byte> data) {
  return reinterpret_cast<const unsigned char*>(data.data());
}
std::span<const std::byte> as_span(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// BLAKE2b of parts, each with its length before it, so that no two lists of parts give the same input. Hashing needs no
// sodium_init(), which asks for random bytes and ends the process where it gets none.
class Hash {
 public:
  explicit Hash(std::span<const std::byte> key) {
    crypto_generichash_init(&state_, key.empty() ? nullptr : bytes_of(key), key.size(), Key::kBytes);
  }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;
  ~Hash() { sodium_memzero(&state_, sizeof(state_)); }

  Hash& add(std::span<const std::byte> part) {
    unsigned char length[8];
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(std::uint64_t{part.size()} >> (8 * i));
    crypto_generichash_update(&state_, length, sizeof(length));
    if (!part.empty()) crypto_generichash_update(&state_, bytes_of(part), part.size());
    return *this;
  }
  std::array<std::byte, Key::kBytes> finish() {
    std::array<std::byte, Key::kBytes> out;
    crypto_generichash_final(&state_, reinterpret_cast<unsigned char*>(out.data()), out.size());
    return out;
  }

 private:
  crypto_generichash_state state_;
};

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  fill_randomly(nonce);
  return nonce;
}

Key::Key(std::span<const std::byte, kBytes> bytes) { std::memcpy(bytes_.data(), bytes.data(), kBytes); }

Key::~Key() { sodium_memzero(bytes_.data(), bytes_.size()); }

Key Key::random() {
  Key key;
  fill_randomly(key.bytes_);
  return key;
}

Key Key::from_text(std::string_view text) {
  return Key(Hash({}).add(as_span("tutti secret")).add(as_span(text)).finish());
}

Key Key::derive(std::string_view purpose, std::span<const std::byte> context) const {
  return Key(Hash(bytes_).add(as_span("derive")).add(as_span(purpose)).add(context).finish());
}

std::array<std::byte, Key::kBytes> Key::authenticate(std::string_view role, std::span<const std::byte> first,
                                                     std::span<const std::byte> second) const {
  return Hash(bytes_).add(as_span("authenticate")).add(as_span(role)).add(first).add(second).finish();
}

bool Key::empty() const { return sodium_is_zero(bytes_of(bytes_), bytes_.size()) == 1; }

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tutti
