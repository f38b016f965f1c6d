#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.h"

namespace tutti {

// Builds a message: integers little endian, texts and byte strings with a 32-bit length before them.
class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void integer(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFF));
    }
  }
  void u8(std::uint8_t value) { integer(value); }
  void u16(std::uint16_t value) { integer(value); }
  void u32(std::uint32_t value) { integer(value); }
  void u64(std::uint64_t value) { integer(value); }

  // Without a length: the reader knows it.
  void raw(std::span<const std::byte> data) { bytes_.insert(bytes_.end(), data.begin(), data.end()); }
  void blob(std::span<const std::byte> data) {
    u32(static_cast<std::uint32_t>(data.size()));
    raw(data);
  }
  void text(std::string_view text) { blob(std::as_bytes(std::span(text.data(), text.size()))); }

  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> view() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Takes a message apart. Throws Error(kMismatch) instead of reading past the end; a length is compared with the limit
// and with what is left before anything is allocated for it. Does not own the bytes.
class ByteReader {
 public:
  // `what` names the message in errors: "the hello of rank 3".
  ByteReader(std::span<const std::byte> data, std::string_view what) : left_(data), what_(what) {}

  template <std::unsigned_integral T>
  T integer() {
    std::uint64_t value = 0;
    const std::span<const std::byte> data = raw(sizeof(T));
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<std::uint64_t>(data[i]) << (8 * i);
    return static_cast<T>(value);
  }
  std::uint8_t u8() { return integer<std::uint8_t>(); }
  std::uint16_t u16() { return integer<std::uint16_t>(); }
  std::uint32_t u32() { return integer<std::uint32_t>(); }
  std::uint64_t u64() { return integer<std::uint64_t>(); }

  // A view into the message.
  std::span<const std::byte> raw(std::size_t count) {
    if (count > left_.size()) fail("ends early", count, left_.size());
    const std::span<const std::byte> data = left_.first(count);
    left_ = left_.subspan(count);
    return data;
  }
  template <std::size_t N>
  std::array<std::byte, N> array() {
    std::array<std::byte, N> data;
    std::memcpy(data.data(), raw(N).data(), N);
    return data;
  }
  std::span<const std::byte> blob(std::size_t limit) {
    const std::size_t count = u32();
    if (count > limit) fail("has a field that is too long", count, limit);
    return raw(count);
  }
  std::string text(std::size_t limit) {
    const std::span<const std::byte> data = blob(limit);
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

  // A 32-bit number from `lowest` to below `ranks`.
  int rank(int ranks, int lowest = 0) {
    const auto rank = static_cast<std::int32_t>(u32());
    if (rank < lowest || rank >= ranks) {
      throw Error(
          ErrorCode::kMismatch,
          std::string(what_) + " names a rank that does not exist: do all ranks run the same version of tutti?");
    }
    return rank;
  }

  std::size_t left() const { return left_.size(); }
  // A message that goes on after its last field is malformed too.
  void finish() const {
    if (!left_.empty()) fail("goes on after its end", left_.size(), 0);
  }

 private:
  [[noreturn]] void fail(const char* how, std::size_t count, std::size_t allowed) const {
    throw Error(ErrorCode::kMismatch, std::string(what_) + " " + how + " (" + std::to_string(count) +
                                          " bytes where there can be " + std::to_string(allowed) +
                                          "): do all ranks run the same version of tutti?");
  }

  std::span<const std::byte> left_;
  std::string_view what_;
};

}  // namespace tutti
