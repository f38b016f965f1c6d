#include "transport/shm/registered_ranges.h"

#include <algorithm>

namespace tutti {
namespace {

constexpr int kTries = 100;
constexpr std::size_t kFirstCapacity = 64;

}  // namespace

// Every word of a row is published, and observed by first_behind(): whoever sees one of a change sees that the version
// was odd before it, too.
void RegisteredRanges::write(Row& row, const Range& range) {
  publish(row.begin, range.begin);
  publish(row.end, range.end);
  publish(row.segment, range.segment);
  publish(row.offset, range.offset);
}

RegisteredRanges::Range RegisteredRanges::read(const Row& row) {
  return {observe(row.begin), observe(row.end), observe(row.segment), observe(row.offset)};
}

std::optional<RegisteredRanges::Range> RegisteredRanges::first_behind(std::uintptr_t address) const {
  if (peek(count_) == 0) return std::nullopt;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t version = observe(version_);  // published by end_change()
    if ((version & 1) != 0) {
      relax_cpu();
      continue;
    }
    // In this order: a table that is published later is never shorter.
    const std::uint64_t count = observe(count_);
    const auto* rows = reinterpret_cast<const Row*>(observe(rows_));
    std::uint64_t first = 0;
    for (std::uint64_t rest = count; rest > 0;) {
      const std::uint64_t half = rest / 2;
      if (observe(rows[first + half].end) > address) {
        rest = half;
      } else {
        first += half + 1;
        rest -= half + 1;
      }
    }
    std::optional<Range> range;
    if (first < count) range = read(rows[first]);
    if (observe_after_reads(version_) == version) return range;
  }
  return std::nullopt;
}

void RegisteredRanges::insert(const Range& range) {
  const std::size_t count = peek(count_);
  auto* rows = reinterpret_cast<Row*>(peek(rows_));
  if (count == capacity_) {
    capacity_ = std::max(kFirstCapacity, 2 * capacity_);
    tables_.push_back(std::make_unique<Row[]>(capacity_));
    Row* const longer = tables_.back().get();
    for (std::size_t i = 0; i < count; ++i) write(longer[i], read(rows[i]));
    rows = longer;
  }
  begin_change();
  publish(rows_, reinterpret_cast<std::uintptr_t>(rows));
  std::size_t place = count;
  for (; place > 0 && peek(rows[place - 1].begin) > range.begin; --place) write(rows[place], read(rows[place - 1]));
  write(rows[place], range);
  publish(count_, count + 1);
  end_change();
}

void RegisteredRanges::erase(std::uintptr_t begin) {
  const std::size_t count = peek(count_);
  auto* rows = reinterpret_cast<Row*>(peek(rows_));
  std::size_t place = 0;
  while (place < count && peek(rows[place].begin) != begin) ++place;
  if (place == count) return;
  begin_change();
  publish(count_, count - 1);
  for (; place + 1 < count; ++place) write(rows[place], read(rows[place + 1]));
  end_change();
}

void RegisteredRanges::clear() {
  begin_change();
  publish(count_, 0);
  end_change();
}

}  // namespace tutti
