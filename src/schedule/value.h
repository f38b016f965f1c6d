#pragma once

#include <cstdint>

namespace tutti {

// What a chunk holds in a symbolic run: which data, contributed by whom, combined how.
struct Value {
  std::uint32_t data = 0;           // the chunk of the collective's data (data_map.h)
  std::uint16_t contributions = 0;  // how many ranks
  std::uint8_t epoch = 0;           // counts rounds over all calls of the run
  bool valid : 1 = false;
  bool first : 1 = false;    // the input map was applied
  bool last : 1 = false;     // the output map was applied
  std::uint64_t ranks = 0;   // which: a bit each, or the sum of their fingerprints (see Contributors)
  std::uint64_t passes = 0;  // expression, with the operands of one pass as one node
  std::uint64_t tree = 0;    // expression, with every pass resolved into the reproducible tree
};
static_assert(sizeof(Value) == 32);

inline constexpr int kExactRanks = 64;

constexpr std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

// Sets of ranks in 64 bits: exact up to kExactRanks; beyond, sums of random fingerprints, in which two different
// multisets of one size are equal with probability 2^-64.
class Contributors {
 public:
  explicit Contributors(int ranks) : exact_(ranks <= kExactRanks) {
    for (int rank = 0; rank < ranks; ++rank) all_ += of(rank);
  }

  bool exact() const { return exact_; }
  std::uint64_t all() const { return all_; }
  std::uint64_t of(int rank) const {
    return exact_ ? std::uint64_t{1} << rank : mix(0x7075747574ull + static_cast<std::uint64_t>(rank));
  }
  bool overlap(std::uint64_t a, std::uint64_t b) const { return exact_ && (a & b) != 0; }

 private:
  bool exact_;
  std::uint64_t all_ = 0;
};

}  // namespace tutti
