#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fork.h"
#include "transport/shm/own_mappings.h"
#include "transport/shm/registered_ranges.h"
#include "transport/shm/shared_heap.h"

namespace tutti {

// The memory behind tutti::register_memory: whole pages of the caller's private memory, in whose place pages of the
// shared heap were put, with the same contents and at the same address. To the caller they are what they were; peers
// find them in a segment that they map already, or are offered like any other. One per process. Any thread; registering
// and unregistering lock, find() does not.
//
// A page that its owner unmaps is no longer what peers see: nobody is told. So it is looked at again and again. A call
// compares a few words at both addresses (is_there()), which finds nearly every mistake and costs nothing that can be
// measured; check() asks the kernel, and remove() does.
//
// A forked child gets the pages as private memory, which follows the parent's until the child writes there.
class RegisteredMemory {
 public:
  static RegisteredMemory& of_process();

  struct Pages {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };
  // Registers the whole pages inside [memory, memory + bytes). REQUIRES: no other thread writes there meanwhile.
  // Throws Error(kInvalidArgument) for memory that is not there, not private and writable, too short or registered
  // already, Error(kSystem) where there is not enough memory: both say what to do. Nothing has changed then.
  Pages add(void* memory, std::size_t bytes);
  // Makes them private again, with what they hold. REQUIRES: add() returned them, and no call uses them.
  // Throws Error(kInvalidArgument) when some were unmapped meanwhile: what lies there now is left alone, and the
  // registration is gone. Throws Error(kSystem) where there is not enough memory; then it stays.
  void remove(std::byte* begin);

  // Where a buffer lies, all of it or from less than a page behind its beginning on.
  std::optional<SharedHeap::Location> find(const void* pointer, std::size_t bytes) const;

  // Whether the pages that were found for a buffer are still those at its address. `overwritten`: the call that uses it
  // writes every byte of [pointer, pointer + bytes), and nothing else uses them meanwhile; then one word may be changed
  // and changed back, and the answer is certain for the last page. Otherwise nothing is written, and the answer may be
  // wrong where both places hold the same. If not, says so and forgets them: they count as private from now on.
  bool is_there(const SharedHeap::Location& location, const void* pointer, std::size_t bytes, bool overwritten);
  // The same by asking the kernel, which takes as long as a thousand short calls. Throws Error(kInvalidArgument).
  void check(const void* pointer, std::size_t bytes);
  // As SharedHeap::renew(), for an address at which memory was registered.
  void renew(std::byte* address, const SharedHeap::Location& pages);

 private:
  // Pages that lie side by side in the heap.
  struct Piece {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::byte* shared = nullptr;  // the other address of the same memory, in the heap
    std::uint64_t segment = 0;
    std::uint64_t offset = 0;
    std::uint64_t inode = 0;
    int descriptor = -1;
    PageSource source(std::uintptr_t address) const { return {descriptor, offset + (address - begin)}; }
    Piece part(std::uintptr_t first, std::uintptr_t last) const;
  };
  struct Entry {
    std::size_t bytes = 0;
    std::vector<Piece> pieces;       // in order; one, until some were renewed
    std::vector<std::byte*> blocks;  // of the heap
    std::uint32_t made_in = fork_generation();
    bool forgotten = false;  // it was found to be gone
  };
  using Entries = std::map<std::uintptr_t, Entry>;

  RegisteredMemory();
  void refuse_overlap(std::uintptr_t begin, std::uintptr_t end) const;
  static Piece allocate_piece(std::uintptr_t begin, std::uintptr_t end);
  static std::vector<Piece> what_is_left(std::uintptr_t begin, const Entry& entry);
  static void share(const Piece& piece);
  static void make_private(const Piece& pages, const Entry& entry);
  static void make_childs(const Piece& pages);
  void renew_piece(std::uintptr_t begin, Entry& entry, const Piece& old);
  void in_child() noexcept;

  Entries entries_;  // by their first address; guarded by ProcessLock::kRegistrations
  RegisteredRanges ranges_;
};

}  // namespace tutti
