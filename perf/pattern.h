#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/types.h"

namespace tutti::perf {

// What every rank puts in and what a reduction must give: element i of rank r is a hash of (seed, r, i), shaped so
// that the result is exact whatever the order of the operations. Every rank can compute every value.
//
//   sum, mulsum   float: integers times a power of two common to the element, few enough contributors and small enough
//                 that every partial sum has an exact representation; integers: any bits, since they wrap
//   avg           as sum, with integers that cannot overflow; the division by a rank count that is no power of two may
//                 round differently by up to tolerance() representable values
//   prod          float: signs, powers of two, one factor of 1.5; integers: odd numbers, so that nothing becomes zero
//   others        any finite numbers, any bits
//
// Immutable; any thread; allocates nothing.
class Pattern {
 public:
  Pattern(DataType type, ReduceOp::Kind op, int ranks, std::uint64_t seed);

  // Bits of element `index` of a rank's input.
  std::uint64_t input(int rank, std::size_t index) const;
  // Bits of the reduction of element `index` over all ranks: O(ranks).
  std::uint64_t reduction(std::size_t index) const;

  // What the library is called with on this rank: mulsum has a factor of the rank's own.
  static ReduceOp op_of_rank(ReduceOp::Kind op, int rank);
  // Distance in representable values that a reduction may be off by.
  static std::uint64_t tolerance(DataType type, ReduceOp::Kind op, int ranks);

 private:
  double float_summand(int rank, std::size_t index) const;
  double float_factor(int rank, std::size_t index) const;
  std::uint64_t integer(int rank, std::size_t index) const;
  std::uint64_t float_reduction(std::size_t index) const;
  std::uint64_t integer_reduction(std::size_t index) const;

  DataType type_;
  ReduceOp::Kind op_;
  int ranks_;
  std::uint64_t seed_;
  int contributors_;         // ranks whose element is not neutral
  std::uint64_t magnitude_;  // largest contribution
};

}  // namespace tutti::perf
