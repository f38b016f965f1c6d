#include "perf/pattern.h"

#include <algorithm>
#include <cmath>

#include "perf/number.h"

namespace tutti::perf {
namespace {

using Kind = ReduceOp::Kind;

constexpr int kEveryRank = -1;  // in place of a rank: a hash that all ranks share

// splitmix64's finalizer, over each of the three in turn.
std::uint64_t hash(std::uint64_t seed, int rank, std::size_t index) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  return mix(mix(mix(seed + kGolden) + static_cast<std::uint64_t>(rank) * kGolden) + index * kGolden);
}

bool is_signed_integer(DataType type) {
  return type == DataType::kI8 || type == DataType::kI16 || type == DataType::kI32 || type == DataType::kI64;
}

// How many halvings or doublings stay within the type's normal numbers, with a factor of 1.5 beside them.
int safe_exponent(DataType type) {
  switch (type) {
    case DataType::kF8E4M3:
      return 5;
    case DataType::kF8E5M2:
    case DataType::kF16:
      return 13;
    default:
      return 60;
  }
}

// Ranks [start, start + contributors) modulo all contribute to an element; start is the element's.
bool contributes(std::uint64_t element_hash, int rank, int ranks, int contributors) {
  const int start = static_cast<int>(element_hash % static_cast<std::uint64_t>(ranks));
  return (rank - start + ranks) % ranks < contributors;
}

}  // namespace

Pattern::Pattern(DataType type, ReduceOp::Kind op, int ranks, std::uint64_t seed)
    : type_(type), op_(op), ranks_(ranks), seed_(seed) {
  std::uint64_t budget = 1ull << std::min(precision(type), 62);
  if (!is_floating(type)) budget -= 1;
  if (op == Kind::kPreMulSum) budget /= 2;  // the largest factor
  if (op == Kind::kProd && is_floating(type)) budget = static_cast<std::uint64_t>(safe_exponent(type));
  contributors_ = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(ranks), budget));
  const bool adds = op == Kind::kSum || op == Kind::kAvg || op == Kind::kPreMulSum;
  magnitude_ = adds ? budget / static_cast<std::uint64_t>(contributors_) : budget;
}

std::uint64_t Pattern::input(int rank, std::size_t index) const {
  if (!is_floating(type_)) return integer(rank, index);
  return encode(op_ == Kind::kProd ? float_factor(rank, index) : float_summand(rank, index), type_);
}

double Pattern::float_summand(int rank, std::size_t index) const {
  const std::uint64_t common = hash(seed_, kEveryRank, index);
  const bool adds = op_ == Kind::kSum || op_ == Kind::kAvg || op_ == Kind::kPreMulSum;
  if (adds && !contributes(common, rank, ranks_, contributors_)) return 0.0;
  const std::uint64_t own = hash(seed_, rank, index);
  const double whole = 1.0 + static_cast<double>((own >> 2) % magnitude_);
  // Three in four are positive, so that few sums are zero: a zero is what lost data looks like.
  const double sign = (own & 3) == 0 ? -1.0 : 1.0;
  return std::ldexp(sign * whole, static_cast<int>(common >> 32) % 5 - 2);
}

double Pattern::float_factor(int rank, std::size_t index) const {
  const std::uint64_t common = hash(seed_, kEveryRank, index);
  const std::uint64_t own = hash(seed_, rank, index);
  double factor = (own & 1) != 0 ? -1.0 : 1.0;
  if (contributes(common, rank, ranks_, contributors_)) factor *= (own & 2) != 0 ? 2.0 : 0.5;
  if (static_cast<int>((common >> 32) % static_cast<std::uint64_t>(ranks_)) == rank) factor *= 1.5;
  return factor;
}

std::uint64_t Pattern::integer(int rank, std::size_t index) const {
  const std::uint64_t own = hash(seed_, rank, index);
  if (op_ == Kind::kAvg) {
    if (!contributes(hash(seed_, kEveryRank, index), rank, ranks_, contributors_)) return 0;
    const std::uint64_t whole = (own >> 1) % (magnitude_ + 1);
    const bool negative = is_signed_integer(type_) && (own & 1) != 0;
    const std::uint64_t bits = negative ? 0 - whole : whole;
    return element_size(type_) == 8 ? bits : bits & ((1ull << (8 * element_size(type_))) - 1);
  }
  const std::uint64_t bits = own >> (64 - 8 * element_size(type_));
  return op_ == Kind::kProd ? bits | 1 : bits;
}

std::uint64_t Pattern::reduction(std::size_t index) const {
  return is_floating(type_) ? float_reduction(index) : integer_reduction(index);
}

std::uint64_t Pattern::float_reduction(std::size_t index) const {
  double result = decode(input(0, index), type_) * op_of_rank(op_, 0).scalar();
  for (int rank = 1; rank < ranks_; ++rank) {
    const double value = decode(input(rank, index), type_) * op_of_rank(op_, rank).scalar();
    switch (op_) {
      case Kind::kProd:
        result *= value;
        break;
      case Kind::kMin:
        result = std::min(result, value);
        break;
      case Kind::kMax:
        result = std::max(result, value);
        break;
      default:
        result += value;
    }
  }
  return encode(op_ == Kind::kAvg ? result / ranks_ : result, type_);
}

std::uint64_t Pattern::integer_reduction(std::size_t index) const {
  const int bits = 8 * static_cast<int>(element_size(type_));
  const bool is_signed = is_signed_integer(type_);
  const auto widened = [&](std::uint64_t value) {
    return is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value << (64 - bits)) >> (64 - bits))
                     : value;
  };
  const auto less = [&](std::uint64_t a, std::uint64_t b) {
    return is_signed ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) : a < b;
  };
  std::uint64_t result = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::uint64_t value =
        widened(input(rank, index)) * static_cast<std::uint64_t>(op_of_rank(op_, rank).scalar());
    if (rank == 0) {
      result = value;
      continue;
    }
    switch (op_) {
      case Kind::kProd:
        result *= value;
        break;
      case Kind::kMin:
        result = less(value, result) ? value : result;
        break;
      case Kind::kMax:
        result = less(result, value) ? value : result;
        break;
      case Kind::kBand:
        result &= value;
        break;
      case Kind::kBor:
        result |= value;
        break;
      case Kind::kBxor:
        result ^= value;
        break;
      default:
        result += value;
    }
  }
  if (op_ == Kind::kAvg) {
    const auto n = static_cast<std::uint64_t>(ranks_);
    result = is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(result) / ranks_) : result / n;
  }
  return bits == 64 ? result : result & ((1ull << bits) - 1);
}

ReduceOp Pattern::op_of_rank(ReduceOp::Kind op, int rank) {
  return op == Kind::kPreMulSum ? ReduceOp::pre_mul_sum(1 + rank % 2) : ReduceOp(op);
}

std::uint64_t Pattern::tolerance(DataType type, ReduceOp::Kind op, int ranks) {
  const bool divides_exactly = (ranks & (ranks - 1)) == 0;
  return op == Kind::kAvg && is_floating(type) && !divides_exactly ? 2 : 0;
}

}  // namespace tutti::perf
