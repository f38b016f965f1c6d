#include "perf/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tutti::perf {
namespace {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};

FloatFormat format_of(DataType type) {
  switch (type) {
    case DataType::kF16:
      return {5, 10, true};
    case DataType::kBF16:
      return {8, 7, true};
    case DataType::kF8E4M3:
      return {4, 3, false};
    case DataType::kF8E5M2:
      return {5, 2, true};
    case DataType::kF64:
      return {11, 52, true};
    default:
      return {8, 23, true};
  }
}

int bits_of(DataType type) { return static_cast<int>(element_size(type)) * 8; }

bool is_signed(DataType type) {
  return type == DataType::kI8 || type == DataType::kI16 || type == DataType::kI32 || type == DataType::kI64;
}

std::uint64_t low_bits(std::uint64_t value, int bits) { return bits == 64 ? value : value & ((1ull << bits) - 1); }

std::int64_t sign_extended(std::uint64_t value, int bits) {
  return static_cast<std::int64_t>(value << (64 - bits)) >> (64 - bits);
}

std::uint64_t encode_small(double value, const FloatFormat& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const std::uint64_t sign = std::signbit(value) ? 1ull << (format.exponent_bits + format.mantissa_bits) : 0;
  const std::uint64_t all_ones = (1ull << (format.exponent_bits + format.mantissa_bits)) - 1;
  const std::uint64_t infinity = all_ones - ((1ull << format.mantissa_bits) - 1);
  if (std::isnan(value)) return format.has_infinity ? infinity | 1ull << (format.mantissa_bits - 1) : all_ones;
  const std::uint64_t overflow = sign | (format.has_infinity ? infinity : all_ones);
  const double magnitude = std::fabs(value);
  if (magnitude == 0.0) return sign;
  if (std::isinf(value)) return overflow;
  // Below the smallest normal number the exponent stays and the mantissa loses its hidden bit; a carry out of the
  // mantissa lands in the exponent by itself.
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const double scaled = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const std::int64_t hidden = 1ll << format.mantissa_bits;
  const std::int64_t bits = static_cast<std::int64_t>(exponent + bias - 1) * hidden + static_cast<std::int64_t>(scaled);
  const std::int64_t limit = static_cast<std::int64_t>(format.has_infinity ? infinity : all_ones);
  return bits >= limit ? overflow : sign | static_cast<std::uint64_t>(bits);
}

double decode_small(std::uint64_t bits, const FloatFormat& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int top = (1 << format.exponent_bits) - 1;
  const std::uint64_t mantissa = bits & ((1ull << format.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> format.mantissa_bits) & top;
  const double sign = bits >> (format.exponent_bits + format.mantissa_bits) & 1 ? -1.0 : 1.0;
  if (format.has_infinity && exponent == top) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (!format.has_infinity && exponent == top && mantissa == (1ull << format.mantissa_bits) - 1) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double hidden = exponent == 0 ? 0.0 : static_cast<double>(1ull << format.mantissa_bits);
  return sign * std::ldexp(hidden + static_cast<double>(mantissa), std::max(exponent, 1) - bias - format.mantissa_bits);
}

}  // namespace

int precision(DataType type) {
  return is_floating(type) ? format_of(type).mantissa_bits + 1 : bits_of(type) - (is_signed(type) ? 1 : 0);
}

std::uint64_t encode(double value, DataType type) {
  if (type == DataType::kF64) return std::bit_cast<std::uint64_t>(value);
  if (type == DataType::kF32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (is_floating(type)) return encode_small(value, format_of(type));
  const double whole = std::trunc(value);
  const std::uint64_t bits = whole < 0 ? 0 - static_cast<std::uint64_t>(-whole) : static_cast<std::uint64_t>(whole);
  return low_bits(bits, bits_of(type));
}

double decode(std::uint64_t bits, DataType type) {
  if (type == DataType::kF64) return std::bit_cast<double>(bits);
  if (type == DataType::kF32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (is_floating(type)) return decode_small(bits, format_of(type));
  if (is_signed(type)) return static_cast<double>(sign_extended(bits, bits_of(type)));
  return static_cast<double>(bits);
}

std::uint64_t load(const void* element, DataType type) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, element_size(type));  // little-endian, as everything that this project runs on
  return bits;
}

void store(std::uint64_t bits, void* element, DataType type) { std::memcpy(element, &bits, element_size(type)); }

std::uint64_t distance(std::uint64_t a, std::uint64_t b, DataType type) {
  if (a == b) return 0;
  constexpr std::uint64_t kFar = 1ull << 32;
  if (!is_floating(type)) return std::min(a < b ? b - a : a - b, kFar);
  if (!std::isfinite(decode(a, type)) || !std::isfinite(decode(b, type))) return kFar;
  const int sign_bit = bits_of(type) - 1;
  const auto position = [sign_bit](std::uint64_t bits) {
    const std::int64_t magnitude = static_cast<std::int64_t>(low_bits(bits, sign_bit));
    return bits >> sign_bit & 1 ? -magnitude : magnitude;
  };
  const std::int64_t pa = position(a), pb = position(b);
  const std::uint64_t apart = pa < pb ? static_cast<std::uint64_t>(pb) - static_cast<std::uint64_t>(pa)
                                      : static_cast<std::uint64_t>(pa) - static_cast<std::uint64_t>(pb);
  return std::clamp<std::uint64_t>(apart, 1, kFar);  // +0 and -0 are different bits too
}

std::string text(std::uint64_t bits, DataType type) {
  const int digits = bits_of(type) / 4;
  if (is_floating(type)) return fmt::format("{:.17g} (0x{:0{}x})", decode(bits, type), bits, digits);
  if (is_signed(type)) return fmt::format("{} (0x{:0{}x})", sign_extended(bits, bits_of(type)), bits, digits);
  return fmt::format("{} (0x{:0{}x})", bits, bits, digits);
}

}  // namespace tutti::perf
