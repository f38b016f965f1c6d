#include "perf/data.h"

#include <algorithm>
#include <cstring>

#include "perf/number.h"

namespace tutti::perf {
namespace {

// Calls visit(table position, offset, elements) for the runs in which `count` elements from `first` lie in the table
// without a wrap.
template <class Visit>
void for_each_run(std::size_t first, std::size_t count, Visit visit) {
  std::size_t position = first % kPeriod;
  for (std::size_t done = 0; done < count;) {
    const std::size_t elements = std::min(kPeriod - position, count - done);
    visit(position, done, elements);
    done += elements;
    position = 0;
  }
}

}  // namespace

void Verdict::add(Mismatch::Kind kind, int rank, std::uint64_t element, std::uint64_t got, std::uint64_t want) {
  ++wrong;
  if (explained < kExplained) first[explained++] = {kind, phase, iteration, rank, element, got, want};
}

Data::Data(DataType type, ReduceOp::Kind op, bool reduces, int rank, int ranks)
    : type_(type),
      width_(element_size(type)),
      rank_(rank),
      ranks_(ranks),
      tolerance_(reduces ? Pattern::tolerance(type, op, ranks) : 0),
      patterns_{Pattern(type, op, ranks, kSeed), Pattern(type, op, ranks, kSeed + 1),
                Pattern(type, op, ranks, kSeed + 2)} {
  tables_[rank] = make(rank);
}

void Data::prepare(const std::vector<Segment>& segments) {
  for (const Segment& segment : segments) {
    if (!tables_.count(segment.source)) tables_[segment.source] = make(segment.source);
  }
}

Data::Table Data::make(int source) const {
  Table table;
  for (int variant = 0; variant < kVariants; ++variant) {
    const Pattern& pattern = patterns_[variant];
    Bytes& bytes = table.variants[variant];
    bytes.resize(kPeriod * width_);
    for (std::size_t i = 0; i < kPeriod; ++i) {
      store(source == kReduction ? pattern.reduction(i) : pattern.input(source, i), bytes.data() + i * width_, type_);
    }
  }
  return table;
}

void Data::fill(void* input, std::size_t count, int variant) const {
  const Bytes& bytes = tables_.at(rank_).variants[variant];
  std::byte* to = static_cast<std::byte*>(input);
  for_each_run(0, count, [&](std::size_t position, std::size_t done, std::size_t elements) {
    std::memcpy(to + done * width_, bytes.data() + position * width_, elements * width_);
  });
}

void Data::check(const void* output, const std::vector<Segment>& segments, int variant, Verdict& verdict) const {
  const std::byte* bytes = static_cast<const std::byte*>(output);
  for (const Segment& segment : segments) {
    const Table& table = tables_.at(segment.source);
    const std::byte* want = table.variants[variant].data();
    for_each_run(segment.first, segment.count, [&](std::size_t position, std::size_t done, std::size_t elements) {
      const std::byte* got = bytes + (segment.offset + done) * width_;
      if (std::memcmp(got, want + position * width_, elements * width_) == 0) return;
      explain(bytes, segment, table, variant, done, done + elements, verdict);
    });
  }
}

void Data::explain(const std::byte* output, const Segment& segment, const Table& table, int variant, std::size_t begin,
                   std::size_t end, Verdict& verdict) const {
  const std::vector<std::byte>& previous = table.variants[(variant + kVariants - 1) % kVariants];
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t at = (segment.first + i) % kPeriod * width_;
    const std::uint64_t got = load(output + (segment.offset + i) * width_, type_);
    const std::uint64_t want = load(table.variants[variant].data() + at, type_);
    if (distance(got, want, type_) <= tolerance_) continue;
    Mismatch::Kind kind = Mismatch::Kind::kOther;
    if (got == load(previous.data() + at, type_)) kind = Mismatch::Kind::kStale;
    if (got == 0) kind = Mismatch::Kind::kZero;
    verdict.add(kind, rank_, segment.offset + i, got, want);
  }
}

std::uint64_t read_all(const void* memory, std::size_t bytes) {
  const std::byte* at = static_cast<const std::byte*>(memory);
  std::uint64_t sum = 0;
  for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    sum += word;
  }
  for (; bytes > 0; --bytes) sum += static_cast<std::uint64_t>(*at++);
  return sum;
}

}  // namespace tutti::perf
