#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/sync.h"

namespace tutti {

// Which addresses of this process are memory of its shared heap that has another address there, in order. One thread at
// a time changes it; any thread may look, without a lock: whoever looks while it is being changed looks again, and
// after some tries gives up.
class RegisteredRanges {
 public:
  struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::uint64_t segment = 0;
    std::uint64_t offset = 0;  // of `begin` in the segment
  };

  // A load.
  bool empty() const { return peek(count_) == 0; }
  // The first range that ends behind this address, whether or not it has begun before. A load while there is none.
  std::optional<Range> first_behind(std::uintptr_t address) const;
  // The same, to be told whether it is known: false when the table has changed all the time.
  bool look_behind(std::uintptr_t address, std::optional<Range>& range) const;

  // REQUIRES: it overlaps none. Allocates.
  void insert(const Range& range);
  // Those that begin in [begin, end) are gone, and these, which lie there in order, are in their place: in one step for
  // whoever looks. REQUIRES: make_room() for these.
  void replace(std::uintptr_t begin, std::uintptr_t end, std::span<const Range> by);
  // So that replace() needs no memory for so many. Allocates.
  void make_room(std::size_t more);
  void clear();

 private:
  struct Row {
    Word begin{0};
    Word end{0};
    Word segment{0};
    Word offset{0};
  };
  static Range read(const Row& row);
  static void write(Row& row, const Range& range);
  static std::uint64_t first_row_behind(const Row* rows, std::uint64_t count, std::uintptr_t address);
  void begin_change() { note(version_, peek(version_) + 1); }
  void end_change() { publish(version_, peek(version_) + 1); }

  Word version_{0};  // odd: it is being changed
  Word rows_{0};     // address of the first row …
  Word count_{0};    // … and how many there are
  std::size_t capacity_ = 0;
  // Those that were too short stay: somebody may still look at them.
  std::vector<std::unique_ptr<Row[]>> tables_;
};

}  // namespace tutti
