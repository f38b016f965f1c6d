#include "reduce/float_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace tutti {
namespace {

struct Layout {
  int exponent_bits;
  int mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint64_t sign() const { return std::uint64_t{1} << (exponent_bits + mantissa_bits); }
};

Layout layout(DataType type) {
  switch (type) {
    case DataType::kF16:
      return {5, 10};
    case DataType::kBF16:
      return {8, 7};
    case DataType::kF8E4M3:
      return {4, 3};
    default:
      return {5, 2};
  }
}

// Of a code without sign, as if no code were infinity or NaN.
double magnitude(const Layout& layout, std::uint64_t code) {
  const auto exponent = static_cast<int>(code >> layout.mantissa_bits);
  const auto mantissa = static_cast<double>(code & ((std::uint64_t{1} << layout.mantissa_bits) - 1));
  const double fraction = std::ldexp(mantissa, -layout.mantissa_bits);
  if (exponent == 0) return std::ldexp(fraction, 1 - layout.bias());
  return std::ldexp(1 + fraction, exponent - layout.bias());
}

// Magnitudes by code, up to the first beyond the finite ones.
const std::vector<double>& magnitudes(DataType type) {
  static std::map<DataType, std::vector<double>> tables;
  std::vector<double>& table = tables[type];
  if (table.empty()) {
    const std::uint64_t beyond = type == DataType::kF8E4M3 ? canonical_nan(type) : infinity(type);
    for (std::uint64_t code = 0; code <= beyond; ++code) table.push_back(magnitude(layout(type), code));
  }
  return table;
}

}  // namespace

std::uint64_t canonical_nan(DataType type) {
  switch (type) {
    case DataType::kF16:
      return 0x7e00;
    case DataType::kBF16:
      return 0x7fc0;
    case DataType::kF32:
      return 0x7fc00000;
    case DataType::kF64:
      return 0x7ff8000000000000;
    case DataType::kF8E4M3:
      return 0x7f;
    default:
      return 0x7e;
  }
}

std::uint64_t infinity(DataType type) {
  switch (type) {
    case DataType::kF16:
      return 0x7c00;
    case DataType::kBF16:
      return 0x7f80;
    case DataType::kF32:
      return 0x7f800000;
    case DataType::kF64:
      return 0x7ff0000000000000;
    case DataType::kF8E4M3:
      return 0x7e;
    default:
      return 0x7c;
  }
}

bool is_nan(DataType type, std::uint64_t code) {
  const std::uint64_t sign = std::uint64_t{1} << (8 * element_size(type) - 1);
  return (code & ~sign) > infinity(type);
}

double decode(DataType type, std::uint64_t code) {
  if (type == DataType::kF64) return std::bit_cast<double>(code);
  if (type == DataType::kF32) return std::bit_cast<float>(static_cast<std::uint32_t>(code));
  const std::uint64_t sign = layout(type).sign();
  double value = magnitude(layout(type), code & ~sign);
  if (is_nan(type, code)) value = std::numeric_limits<double>::quiet_NaN();
  if (type != DataType::kF8E4M3 && (code & ~sign) == infinity(type)) value = std::numeric_limits<double>::infinity();
  return code & sign ? -value : value;
}

std::uint64_t encode(DataType type, double value) {
  if (std::isnan(value)) return canonical_nan(type);
  if (type == DataType::kF64) return std::bit_cast<std::uint64_t>(value);
  if (type == DataType::kF32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const std::vector<double>& table = magnitudes(type);
  const std::uint64_t sign = std::signbit(value) ? layout(type).sign() : 0;
  const double wanted = std::fabs(value);
  const auto above = std::lower_bound(table.begin(), table.end(), wanted);
  auto code = static_cast<std::uint64_t>(above - table.begin());
  if (above == table.end()) {
    --code;
  } else if (*above != wanted) {
    const double to_above = *above - wanted;
    const double to_below = wanted - table[code - 1];
    if (to_below < to_above || (to_below == to_above && code % 2 == 1)) --code;
  }
  // The entry beyond the finite values is infinity, or NaN where there is none.
  return type == DataType::kF8E4M3 && code == canonical_nan(type) ? code : code | sign;
}

}  // namespace tutti
