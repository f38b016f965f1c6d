#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/sync.h"
#include "executor/signature.h"

namespace tutti {

// The last calls of a rank on one communicator, for messages about them. One thread records at a time; any thread may
// look up. Fixed size, never allocates, never blocks.
class OperationLog {
 public:
  static constexpr std::size_t kEntries = 1024;

  void record(std::uint64_t sequence, const CallShape& shape) {
    Entry& entry = entries_[sequence % kEntries];
    note(entry.sequence, 0);
    // Each of these publishes the zero above before its own value, for find().
    publish(entry.kinds, static_cast<std::uint64_t>(shape.collective) | static_cast<std::uint64_t>(shape.type) << 8 |
                             static_cast<std::uint64_t>(shape.op) << 16 | static_cast<std::uint64_t>(shape.root) << 32);
    publish(entry.count, shape.count);
    publish(entry.sequence, sequence);
  }

  // False: not issued yet, overwritten long ago, or being overwritten right now.
  bool find(std::uint64_t sequence, CallShape& shape) const {
    const Entry& entry = entries_[sequence % kEntries];
    if (observe(entry.sequence) != sequence) return false;
    const std::uint64_t kinds = observe(entry.kinds);
    shape.collective = static_cast<Collective>(kinds & 0xFF);
    shape.type = static_cast<DataType>(kinds >> 8 & 0xFF);
    shape.op = static_cast<ReduceOp::Kind>(kinds >> 16 & 0xFF);
    shape.root = static_cast<std::uint32_t>(kinds >> 32);
    shape.count = observe(entry.count);
    return observe(entry.sequence) == sequence;
  }

 private:
  struct Entry {
    Word sequence{0};
    Word kinds{0};
    Word count{0};
  };
  std::array<Entry, kEntries> entries_;
};

}  // namespace tutti
