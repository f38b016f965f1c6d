#pragma once

// The layout of each floating type, as the integer code of its values, for whoever computes on the bits.

#include <bit>
#include <cstdint>

#include "tutti/types.h"

namespace tutti {

struct FloatFormat {
  int bits;
  int mantissa_bits;
  int bias;
  std::int64_t largest;        // code of the largest magnitude that is not NaN: infinity, where there is one
  std::int64_t canonical_nan;  // the one NaN that results have

  constexpr bool has_infinity() const { return (largest & ((std::int64_t{1} << mantissa_bits) - 1)) == 0; }
};

inline constexpr FloatFormat kFormatF16{16, 10, 15, 0x7c00, 0x7e00};
inline constexpr FloatFormat kFormatBF16{16, 7, 127, 0x7f80, 0x7fc0};
inline constexpr FloatFormat kFormatF32{32, 23, 127, 0x7f800000, 0x7fc00000};
inline constexpr FloatFormat kFormatF64{64, 52, 1023, 0x7ff0000000000000, 0x7ff8000000000000};
inline constexpr FloatFormat kFormatF8E4M3{8, 3, 7, 0x7e, 0x7f};
inline constexpr FloatFormat kFormatF8E5M2{8, 2, 15, 0x7c, 0x7e};

// REQUIRES: is_floating(type).
constexpr const FloatFormat& float_format(DataType type) {
  switch (type) {
    case DataType::kF16:
      return kFormatF16;
    case DataType::kBF16:
      return kFormatBF16;
    case DataType::kF64:
      return kFormatF64;
    case DataType::kF8E4M3:
      return kFormatF8E4M3;
    case DataType::kF8E5M2:
      return kFormatF8E5M2;
    default:
      return kFormatF32;
  }
}

// 2^exponent as f32. REQUIRES: -126 <= exponent <= 127.
constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + kFormatF32.bias) << kFormatF32.mantissa_bits);
}

// Constants to round a small floating type to nearest even with f32 arithmetic.
struct Rounding {
  int dropped_bits = 0;  // mantissa bits that f32 has and the type has not
  float smallest_normal = 0;
  float subnormal_shift = 0;  // added and subtracted, it leaves a multiple of the smallest subnormal
  std::int32_t largest = 0;   // f32 bits of the largest finite value
  std::int32_t overflow = 0;  // f32 bits of what lies beyond

  constexpr Rounding() = default;
  constexpr explicit Rounding(const FloatFormat& format)
      : dropped_bits(kFormatF32.mantissa_bits - format.mantissa_bits),
        smallest_normal(power_of_two(1 - format.bias)),
        subnormal_shift(power_of_two(1 - format.bias + dropped_bits)),
        largest(static_cast<std::int32_t>((format.largest - (format.has_infinity() ? 1 : 0) +
                                           (std::int64_t{127 - format.bias} << format.mantissa_bits))
                                          << dropped_bits)),
        overflow(static_cast<std::int32_t>(format.has_infinity() ? kFormatF32.largest : kFormatF32.canonical_nan)) {}
};

}  // namespace tutti
