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
  std::optional<Range> range;
  return look_behind(address, range) ? range : std::nullopt;
}

bool RegisteredRanges::look_behind(std::uintptr_t address, std::optional<Range>& range) const {
  range.reset();
  if (empty()) return true;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t version = observe(version_);  // published by end_change()
    if ((version & 1) != 0) {
      relax_cpu();
      continue;
    }
    // In this order: a table that is published later is never shorter.
    const std::uint64_t count = observe(count_);
    const auto* rows = reinterpret_cast<const Row*>(observe(rows_));
    const std::uint64_t first = first_row_behind(rows, count, address);
    range.reset();
    if (first < count) range = read(rows[first]);
    if (observe_after_reads(version_) == version) return true;
  }
  range.reset();
  return false;
}

std::uint64_t RegisteredRanges::first_row_behind(const Row* rows, std::uint64_t count, std::uintptr_t address) {
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
  return first;
}

void RegisteredRanges::insert(const Range& range) {
  make_room(1);
  replace(range.begin, range.end, std::span(&range, 1));
}

void RegisteredRanges::make_room(std::size_t more) {
  const std::size_t count = peek(count_);
  if (count + more <= capacity_) return;
  const std::size_t capacity = std::max({kFirstCapacity, 2 * capacity_, count + more});
  tables_.push_back(std::make_unique<Row[]>(capacity));
  capacity_ = capacity;
  Row* const longer = tables_.back().get();
  const auto* const rows = reinterpret_cast<const Row*>(peek(rows_));
  for (std::size_t i = 0; i < count; ++i) write(longer[i], read(rows[i]));
  begin_change();
  publish(rows_, reinterpret_cast<std::uintptr_t>(longer));
  end_change();
}

void RegisteredRanges::replace(std::uintptr_t begin, std::uintptr_t end, std::span<const Range> by) {
  const std::size_t count = peek(count_);
  auto* const rows = reinterpret_cast<Row*>(peek(rows_));
  std::size_t first = 0;
  while (first < count && peek(rows[first].begin) < begin) ++first;
  std::size_t last = first;
  while (last < count && peek(rows[last].begin) < end) ++last;
  const std::size_t behind = first + by.size();  // where the rows from `last` on belong
  begin_change();
  if (behind > last) {
    for (std::size_t i = count; i > last; --i) write(rows[i - 1 + behind - last], read(rows[i - 1]));
  } else {
    for (std::size_t i = last; i < count; ++i) write(rows[i - last + behind], read(rows[i]));
  }
  for (std::size_t i = 0; i < by.size(); ++i) write(rows[first + i], by[i]);
  publish(count_, count - (last - first) + by.size());
  end_change();
}

void RegisteredRanges::clear() {
  begin_change();
  publish(count_, 0);
  end_change();
}

}  // namespace tutti
