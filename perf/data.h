#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "perf/collective.h"
#include "perf/pattern.h"

namespace tutti::perf {

// Consecutive calls use consecutive variants of the data, so that what an earlier call left behind is not taken for a
// result. Three: libraries like to alternate between two buffers.
inline constexpr int kVariants = 3;

// Of the first variant; the others' follow.
inline constexpr std::uint64_t kSeed = 0x7475747469;

// The pattern repeats after this many elements: a prime, so that data which went to the wrong chunk, block or rank
// still differs. A few KiB stay in the first-level cache, which makes filling and checking as fast as the memory.
inline constexpr std::size_t kPeriod = 1021;

// Which of a measurement's calls gave a result.
enum class Phase : std::uint32_t { kCheck, kBackToBack, kSingle };

struct Mismatch {
  enum class Kind : std::uint32_t { kOther, kZero, kStale, kOutside };
  Kind kind;
  Phase phase;
  std::int32_t iteration;  // within the phase, from 0
  std::int32_t rank;       // whose output
  std::uint64_t element;   // of the output; kOutside: bytes before or after it
  std::uint64_t got;
  std::uint64_t want;
};

// What was wrong, without memory: the first few are explained, all are counted.
struct Verdict {
  static constexpr std::size_t kExplained = 4;
  std::uint64_t wrong = 0;
  std::size_t explained = 0;
  std::array<Mismatch, kExplained> first{};
  // Of what is being checked.
  Phase phase = Phase::kCheck;
  int iteration = 0;

  void add(Mismatch::Kind kind, int rank, std::uint64_t element, std::uint64_t got, std::uint64_t want);
};

// The data of one (type, op, ranks) as one rank sees it: writes inputs and checks outputs. Owned by one rank's thread.
// Allocates in the constructor and when prepare() meets a new source.
class Data {
 public:
  Data(DataType type, ReduceOp::Kind op, bool reduces, int rank, int ranks);

  // Makes what check() needs. Call it outside measured loops.
  void prepare(const std::vector<Segment>& segments);

  void fill(void* input, std::size_t count, int variant) const;
  // Reads all of the segments and adds what differs to the verdict.
  void check(const void* output, const std::vector<Segment>& segments, int variant, Verdict& verdict) const;

 private:
  using Bytes = std::vector<std::byte>;  // kPeriod elements
  struct Table {
    std::array<Bytes, kVariants> variants;
  };
  Table make(int source) const;
  void explain(const std::byte* output, const Segment& segment, const Table& table, int variant, std::size_t begin,
               std::size_t end, Verdict& verdict) const;

  DataType type_;
  std::size_t width_;
  int rank_;
  int ranks_;
  std::uint64_t tolerance_;
  std::array<Pattern, kVariants> patterns_;
  std::map<int, Table> tables_;  // by source
};

// Reads memory as a consumer would; the result only keeps the compiler from leaving it out.
std::uint64_t read_all(const void* memory, std::size_t bytes);

}  // namespace tutti::perf
