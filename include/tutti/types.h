#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tutti/requirements.h"  // first

namespace tutti {

// Element types. Sizes in bytes: element_size().
enum class DataType : std::uint8_t {
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kF8E4M3,  // OCP 8-bit float: 4 exponent bits, 3 mantissa bits, no infinities
  kF8E5M2,  // OCP 8-bit float: 5 exponent bits, 2 mantissa bits
};
inline constexpr int kDataTypes = 14;

namespace detail {
inline constexpr std::uint8_t kElementSizes[kDataTypes] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1};
}

constexpr std::size_t element_size(DataType type) { return detail::kElementSizes[static_cast<int>(type)]; }

// The spelling used in messages, in JSON and on command lines: "f32", "bf16", "f8e4m3" …
constexpr const char* name(DataType type) {
  constexpr const char* kNames[kDataTypes] = {"i8",  "u8",  "i16",  "u16", "i32", "u32",    "i64",
                                              "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"};
  return kNames[static_cast<int>(type)];
}

constexpr bool is_floating(DataType type) { return type >= DataType::kF16; }

// Types that C++20 has no built-in for: raw bits, converted by whoever computes with them. They exist so that
// std::span overloads can tell the types apart.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};

// The element type that stands for a type of C++: every integer type by its size and sign, so `long` and `long long`
// too; `char`, `bool` and std::byte are bytes without or with the sign that the platform gives them.
template <class T>
struct DataTypeOf;
template <std::integral T>
requires(sizeof(T) <= 8) struct DataTypeOf<T> {
 private:
  static constexpr int size_place = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;

 public:
  static constexpr DataType value = static_cast<DataType>(2 * size_place + (std::is_signed_v<T> ? 0 : 1));
};
static_assert(DataTypeOf<std::int8_t>::value == DataType::kI8 && DataTypeOf<std::uint64_t>::value == DataType::kU64);
static_assert(DataTypeOf<std::uint16_t>::value == DataType::kU16 && DataTypeOf<std::int32_t>::value == DataType::kI32);
template <>
struct DataTypeOf<std::byte> {
  static constexpr DataType value = DataType::kU8;
};
template <>
struct DataTypeOf<Float16> {
  static constexpr DataType value = DataType::kF16;
};
template <>
struct DataTypeOf<BFloat16> {
  static constexpr DataType value = DataType::kBF16;
};
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::kF32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::kF64;
};
template <>
struct DataTypeOf<Float8E4M3> {
  static constexpr DataType value = DataType::kF8E4M3;
};
template <>
struct DataTypeOf<Float8E5M2> {
  static constexpr DataType value = DataType::kF8E5M2;
};
template <class T>
inline constexpr DataType data_type_of = DataTypeOf<T>::value;

// How contributions are combined.
//   sum, prod, min, max   all types; integers wrap modulo 2^bits; min and max propagate NaN and order -0 before +0
//   avg                   sum divided by the number of ranks; sums of integers wrap, then truncate toward zero
//   pre_mul_sum           every rank multiplies its own input by its own scalar, then sum
//   band, bor, bxor       integers only
// f16, bf16 and fp8 are computed in f32 and rounded to nearest even when stored. Averages of f16 and fp8 are rounded
// once: they are finite where all values are, and equal values have that value as their average. Those of bf16, f32 and
// f64 are finite where the sum is, and of equal values may be off by 2 representable ones.
class ReduceOp {
 public:
  enum class Kind : std::uint8_t { kSum, kProd, kMin, kMax, kAvg, kPreMulSum, kBand, kBor, kBxor };
  static constexpr int kKinds = 9;

  constexpr ReduceOp(Kind kind) : kind_(kind) {}  // NOLINT: kinds without a scalar are operations by themselves
  static constexpr ReduceOp pre_mul_sum(double scalar) { return ReduceOp(Kind::kPreMulSum, scalar); }

  constexpr Kind kind() const { return kind_; }
  // The factor of pre_mul_sum, 1 otherwise. For integer types it must be a whole number.
  constexpr double scalar() const { return scalar_; }

 private:
  constexpr ReduceOp(Kind kind, double scalar) : kind_(kind), scalar_(scalar) {}
  Kind kind_;
  double scalar_ = 1.0;
};

inline constexpr ReduceOp kSum{ReduceOp::Kind::kSum};
inline constexpr ReduceOp kProd{ReduceOp::Kind::kProd};
inline constexpr ReduceOp kMin{ReduceOp::Kind::kMin};
inline constexpr ReduceOp kMax{ReduceOp::Kind::kMax};
inline constexpr ReduceOp kAvg{ReduceOp::Kind::kAvg};
inline constexpr ReduceOp kBand{ReduceOp::Kind::kBand};
inline constexpr ReduceOp kBor{ReduceOp::Kind::kBor};
inline constexpr ReduceOp kBxor{ReduceOp::Kind::kBxor};

constexpr const char* name(ReduceOp op) {
  constexpr const char* kNames[ReduceOp::kKinds] = {"sum",    "prod", "min", "max", "avg",
                                                    "mulsum", "band", "bor", "bxor"};
  return kNames[static_cast<int>(op.kind())];
}

// Bitwise operations have no meaning on floating-point types.
constexpr bool supports(ReduceOp op, DataType type) { return op.kind() < ReduceOp::Kind::kBand || !is_floating(type); }

// In place of a rank, for a receive that takes whichever message was announced first.
inline constexpr int kAnySource = -1;

}  // namespace tutti
