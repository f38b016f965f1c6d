#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/fork.h"
#include "base/sync.h"
#include "transport/line.h"
#include "transport/shm/pages.h"
#include "transport/shm/registered_ranges.h"
#include "transport/shm/segment.h"

namespace tutti {

// The memory behind tutti::allocate: sealed segments that other processes of the host can map. One per process, because
// its memory is older and younger than any communicator. Any thread; allocating and freeing lock, find() does not.
//
// A forked child shares what its parent had allocated: it can read and write it, but what it allocates lies elsewhere,
// and freeing the parent's buffers there changes nothing for the parent.
class SharedHeap {
 public:
  static constexpr std::size_t kMostSegments = 63;  // numbered from 1, one bit each in Endpoint::confirmed
  static constexpr std::size_t kAlignment = 4096;

  static SharedHeap& of_process();

  // Zero-filled where it is new, and touched by the calling thread: it lies in the memory nearest to that. Where
  // the kernel gives huge pages, it has some from kHugePage bytes on. Throws
  // Error(kSystem) with what was asked for and what is available.
  void* allocate(std::size_t bytes);
  // Throws Error(kInvalidArgument) for a pointer that allocate() did not return, or returned to somebody before.
  void deallocate(void* pointer);

  // Memory for pages that lie at this address as well: where huge pages can be mapped at both, they are. Not
  // zero-filled. Freed by deallocate().
  std::byte* allocate_for(std::uintptr_t address, std::size_t bytes);

  // Where a buffer lies in a segment.
  struct Location {
    std::uint64_t segment = 0;
    std::uint64_t offset = 0;   // of its first byte, if that were there: modulo 2^64, it may lie before the segment
    std::uint64_t anchor = 0;   // of the first byte that is there
    std::uint64_t end = 0;      // nothing from this offset on is there
    std::uint64_t missing = 0;  // bytes at the buffer's beginning that are private, before memory that was registered
    bool registered = false;    // it has another address there, and what lies around it may lie elsewhere

    // Whether a part of the buffer is there for peers.
    bool holds(std::uint64_t first, std::size_t bytes) const {
      return first >= missing && offset + first + bytes <= end;
    }
  };
  // Where [pointer, pointer + bytes) lies; nothing when it is not memory of this heap. A load and a branch while
  // nothing was ever allocated.
  std::optional<Location> find(const void* pointer, std::size_t bytes) const;

  // A peer may still write between anchor and end, though the call that said so has failed: nothing of it is handed out
  // again, whoever frees it, before as many release(). REQUIRES: memory that was allocated, not freed.
  void hold(const Location& pages);
  void release(const Location& pages);
  // Fresh pages with the same contents take the place of those between anchor and end at this address of the heap,
  // wherever they still lie there: who writes to the old ones changes nothing that anybody sees. False: it is no
  // address of the heap. REQUIRES: whole pages, held; nobody in this process uses them meanwhile. Throws Error(kSystem)
  // where there is not enough memory; the old ones stay then.
  bool renew(std::byte* address, const Location& pages);

  // What another process needs to map a segment. REQUIRES: find() named it.
  Offer offer(std::uint64_t segment) const;
  std::byte* base(std::uint64_t segment) const;
  // Whether this heap made the offer. A process id alone does not say so: process namespaces count apart.
  bool made(const Offer& offer) const;

 private:
  struct Arena {
    Segment segment;
    std::uint64_t nonce = 0;
    std::uint32_t made_in = fork_generation();
    std::map<std::size_t, std::size_t> free;  // offset -> bytes, no two adjacent
    std::map<std::size_t, std::size_t> used;  // offset -> bytes
    struct Held {
      std::size_t bytes = 0;
      int holds = 0;
      bool freed = false;
    };
    std::map<std::size_t, Held> held;  // by offset
    // Of used blocks, by offset: where the pages come from that lie at their addresses now.
    std::map<std::size_t, std::vector<std::byte*>> renewed;
    bool own() const { return made_in == fork_generation(); }
  };
  // What find() reads, published with the number of segments.
  struct Span {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };

  SharedHeap() = default;
  // Where a block may begin: at offsets that leave this rest when divided by the unit. Huge pages lie on such a grid.
  struct Grid {
    std::size_t unit;
    std::size_t rest;
  };
  // What follows is called under the lock.
  std::byte* take(std::size_t bytes, Grid grid, const char* purpose);
  static Grid grid_of(std::uintptr_t address, std::size_t bytes);
  static std::byte* take_from(Arena& arena, std::size_t bytes, Grid grid, const char* purpose);
  Arena& add_arena(std::size_t bytes);
  // Null: the address is not in the heap.
  Arena* arena_at(std::uintptr_t address) const;
  PageSource source_of(std::uint64_t segment, std::uint64_t offset) const;
  void free(Arena& arena, std::map<std::size_t, std::size_t>::iterator block);
  bool restore(Arena& arena, std::size_t offset, std::size_t bytes);
  void renew_within(Arena& arena, std::size_t block, std::uintptr_t begin, std::uintptr_t end, std::uintptr_t address,
                    const Location& pages);
  void renew_pages(std::vector<std::byte*>& renewed, const RegisteredRanges::Range& old);
  // Of a buffer in the heap that lies where `location` says, but for pages that were renewed.
  std::optional<Location> find_renewed(Location location, std::uintptr_t address, std::size_t bytes) const;
  // Does nothing in a forked child: the memory is its parent's.
  static void give_back(Arena& arena, std::size_t offset, std::size_t bytes);

  // Guarded by ProcessLock::kSharedHeap.
  std::vector<std::unique_ptr<Arena>> arenas_;
  Span spans_[kMostSegments];
  Word segments_{0};          // spans_ below this number are there
  RegisteredRanges renewed_;  // addresses of the heap that have pages from elsewhere
};

}  // namespace tutti
