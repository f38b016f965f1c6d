#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/handles.h"
#include "base/sync.h"
#include "transport/line.h"
#include "transport/shm/shared_heap.h"

namespace tutti {

// The segments of one peer that this rank can read and write where they lie. Owned by the communicator; one thread at a
// time.
class PeerSegments {
 public:
  // confirmed: this rank's word for the peer; a bit is set for each segment that resolve() knows.
  explicit PeerSegments(Word& confirmed) : confirmed_(&confirmed) {}

  // Maps an offered segment and confirms it, once; an offer that cannot be followed (another process namespace, no
  // permission) is remembered and costs nothing again. Makes system calls on the first offer of a segment.
  void consider(const Offer& offer);

  // The memory of a place; null when the peer named what was never confirmed, or reaches past its end.
  std::byte* resolve(const Place& place, std::size_t bytes) const {
    if (place.segment >= known_.size()) return nullptr;
    const Known& known = known_[place.segment];
    if (known.base == nullptr || place.offset > known.bytes || bytes > known.bytes - place.offset) return nullptr;
    return known.base + place.offset;
  }

  void count_read() { add(reads_, 1); }
  // Messages of the peer that were read where they lay. Any thread.
  std::uint64_t reads() const { return peek(reads_); }
  void count_write() { add(writes_, 1); }
  // Messages to the peer that were written where they belonged. Any thread.
  std::uint64_t writes() const { return peek(writes_); }

 private:
  struct Known {
    std::byte* base = nullptr;
    std::uint64_t bytes = 0;
    bool considered = false;
  };
  bool open(const Offer& offer, Known& known);
  static UniqueFd open_memory(const Offer& offer);

  std::vector<Known> known_;  // by segment, empty until the first offer
  std::vector<MappedMemory> mappings_;
  Word* confirmed_;
  Word reads_{0};
  Word writes_{0};
};

}  // namespace tutti
