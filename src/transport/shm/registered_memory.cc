#include "transport/shm/registered_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>

#include "base/log.h"
#include "transport/shm/pages.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// Outputs shorter than this are compared, not written: a store takes the line from whoever has it in his cache.
constexpr std::size_t kShortestWritten = 16 * 1024;

void* pointer_to(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

[[noreturn]] void refuse(const void* memory, std::size_t bytes, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("cannot register {} bytes at {}: {}", bytes, memory, why));
}

// Why pages cannot become shared, and what to do instead; "" when they can.
std::string obstacle(const Mapping& mapping) {
  const auto says = [&mapping](const char* what) {
    return fmt::format("{:#x}-{:#x} ({}) {}", mapping.begin, mapping.end,
                       mapping.name.empty() ? mapping.permissions : mapping.permissions + " " + mapping.name, what);
  };
  if (mapping.name.starts_with("/memfd:tutti")) {
    return says("is memory of tutti already, which the ranks of the host share as it is");
  }
  if (mapping.permissions[3] != 'p')
    return says("is shared already, but not by tutti: copy it to memory of tutti::allocate");
  if (mapping.inode != 0) return says("belongs to a file or to huge pages set aside: use memory of tutti::allocate");
  if (mapping.permissions[0] != 'r' || mapping.permissions[1] != 'w') return says("cannot be read and written");
  if (mapping.permissions[2] == 'x') return says("holds code: only data is registered");
  if (mapping.name.starts_with("[") && mapping.name != "[heap]" && !mapping.name.starts_with("[anon:")) {
    return says("is not memory that a program allocates: only that is registered");
  }
  return "";
}

std::string there_is(std::size_t bytes, std::size_t left) {
  return fmt::format(
      "{} of {} registered bytes were unmapped or mapped anew before they were unregistered; what lies "
      "there now is private: unregister memory first, then free it",
      bytes - left, bytes);
}

std::uint64_t word_at(const std::byte* place) {
  std::uint64_t word;
  std::memcpy(&word, place, sizeof(word));
  return word;
}

// Whether a write to one address is seen at the other. What was there before is there again.
bool is_same_memory(std::byte* one, const std::byte* other) {
  const std::uint64_t before = word_at(one);
  const std::uint64_t changed = ~word_at(other);
  keep_order();
  std::memcpy(one, &changed, sizeof(changed));
  keep_order();
  const bool same = word_at(other) == changed;
  keep_order();
  std::memcpy(one, &before, sizeof(before));
  keep_order();
  return same;
}

}  // namespace

RegisteredMemory& RegisteredMemory::of_process() {
  // Never destroyed: registrations of static objects may end after it would be.
  static RegisteredMemory& instance = *new RegisteredMemory;
  return instance;
}

RegisteredMemory::RegisteredMemory() {
  at_every_fork([] { of_process().in_child(); });
}

RegisteredMemory::Pages RegisteredMemory::add(void* memory, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (memory == nullptr) refuse(memory, bytes, "null is no memory");
  if (bytes > PTRDIFF_MAX || address + bytes < address) refuse(memory, bytes, "it would end behind all memory");
  const std::uintptr_t begin = round_up(address, page_size());
  const std::uintptr_t end = std::max(begin, round_down(address + bytes, page_size()));
  if (begin == end) {
    refuse(memory, bytes,
           fmt::format("no whole page of {} bytes lies in it: use memory of tutti::allocate", page_size()));
  }
  const std::lock_guard lock(process_lock(ProcessLock::kRegistrations));
  refuse_overlap(begin, end);
  std::uintptr_t known = begin;
  for (const Mapping& mapping : own_mappings(begin, end)) {
    if (mapping.begin > known) break;
    if (const std::string why = obstacle(mapping); !why.empty()) refuse(memory, bytes, why);
    known = mapping.end;
  }
  if (known < end) refuse(memory, bytes, fmt::format("there is no memory at {:#x}: was it freed?", known));

  const Piece piece = allocate_piece(begin, end);
  if (piece.descriptor < 0) {  // nothing that peers could map: then private memory is as good
    SharedHeap::of_process().deallocate(piece.shared);
    return {};
  }
  try {
    Entry entry;
    entry.bytes = end - begin;
    entry.pieces.push_back(piece);
    entry.blocks.push_back(piece.shared);
    const auto place = entries_.emplace(begin, std::move(entry)).first;
    try {
      ranges_.make_room(1);
      share(piece);
    } catch (...) {
      entries_.erase(place);
      throw;
    }
  } catch (...) {
    SharedHeap::of_process().deallocate(piece.shared);
    throw;
  }
  ranges_.insert({begin, end, piece.segment, piece.offset});
  return {static_cast<std::byte*>(pointer_to(begin)), end - begin};
}

// Memory of the heap for pages at these addresses.
RegisteredMemory::Piece RegisteredMemory::allocate_piece(std::uintptr_t begin, std::uintptr_t end) {
  SharedHeap& heap = SharedHeap::of_process();
  Piece piece{.begin = begin, .end = end, .shared = heap.allocate_for(begin, end - begin)};
  const SharedHeap::Location location = *heap.find(piece.shared, end - begin);
  piece.segment = location.segment;
  piece.offset = location.offset;
  piece.descriptor = heap.offer(location.segment).descriptor;
  if (piece.descriptor < 0) return piece;  // of this process alone
  struct stat status {};
  if (::fstat(piece.descriptor, &status) != 0) {
    const int error = errno;
    heap.deallocate(piece.shared);
    throw Error(ErrorCode::kSystem, fmt::format("cannot inspect shared memory: {}", std::strerror(error)));
  }
  piece.inode = status.st_ino;
  return piece;
}

RegisteredMemory::Piece RegisteredMemory::Piece::part(std::uintptr_t first, std::uintptr_t last) const {
  Piece some = *this;
  some.begin = std::max(begin, first);
  some.end = std::min(end, last);
  some.shared += some.begin - begin;
  some.offset += some.begin - begin;
  return some;
}

void RegisteredMemory::refuse_overlap(std::uintptr_t begin, std::uintptr_t end) const {
  const auto after = entries_.lower_bound(end);
  if (after == entries_.begin()) return;
  const auto& [other, entry] = *std::prev(after);
  if (other + entry.bytes <= begin) return;
  refuse(pointer_to(begin), end - begin,
         fmt::format("{} of them overlap the {} bytes at {:#x}, which are registered{}: unregister those first",
                     std::min(end, other + entry.bytes) - std::max(begin, other), entry.bytes, other,
                     what_is_left(other, entry).empty() ? " (and were unmapped since)" : ""));
}

// The same contents at the same address, in one step: who reads meanwhile sees no difference.
void RegisteredMemory::share(const Piece& piece) {
  const std::uintptr_t begin = piece.begin;
  const std::size_t bytes = piece.end - begin;
  std::memcpy(piece.shared, pointer_to(begin), bytes);
  if (!map_over(pointer_to(begin), bytes, piece.source(begin))) {
    const int error = errno;
    // Some kernels have taken away what was there before they find out that they cannot.
    void* const again =
        ::mmap(pointer_to(begin), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (again == MAP_FAILED) {
      log_line(LogLevel::kError, "the kernel took registered memory away and does not give it back: no way to go on");
      std::abort();
    }
    std::memcpy(pointer_to(begin), piece.shared, bytes);
    throw Error(ErrorCode::kSystem, fmt::format("cannot register {} bytes at {:#x}: mapping them failed ({}; sysctl "
                                                "vm.max_map_count bounds the mappings of a process)",
                                                bytes, begin, std::strerror(error)));
  }
#if defined(MADV_POPULATE_WRITE)
  ::madvise(pointer_to(begin), bytes, MADV_POPULATE_WRITE);  // saves page faults
#endif
}

// The parts of a registration's pieces that are still mapped to its memory.
std::vector<RegisteredMemory::Piece> RegisteredMemory::what_is_left(std::uintptr_t begin, const Entry& entry) {
  std::vector<Piece> left;
  for (const Mapping& mapping : own_mappings(begin, begin + entry.bytes)) {
    if (!mapping.name.starts_with("/memfd:tutti")) continue;
    for (const Piece& piece : entry.pieces) {
      if (mapping.inode != piece.inode || mapping.offset - mapping.begin != piece.offset - piece.begin) continue;
      if (mapping.begin < piece.end && mapping.end > piece.begin) {
        left.push_back(piece.part(mapping.begin, mapping.end));
      }
    }
  }
  return left;
}

// Puts private pages with the same contents in place of these, in one step.
void RegisteredMemory::make_private(const Piece& pages, const Entry& entry) {
  const std::size_t bytes = pages.end - pages.begin;
  void* const copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy != MAP_FAILED) {
    const bool inherited = entry.made_in != fork_generation();
    std::memcpy(copy, inherited ? pointer_to(pages.begin) : pages.shared, bytes);
    if (::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer_to(pages.begin)) != MAP_FAILED) return;
    ::munmap(copy, bytes);
  }
  throw Error(ErrorCode::kSystem, fmt::format("cannot unregister {} bytes at {:#x}: no private memory for them ({})",
                                              bytes, pages.begin, std::strerror(errno)));
}

void RegisteredMemory::remove(std::byte* memory) {
  const std::lock_guard lock(process_lock(ProcessLock::kRegistrations));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const auto found = entries_.find(begin);
  if (found == entries_.end()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is not registered", static_cast<void*>(memory)));
  }
  const Entry entry = found->second;
  std::size_t left = 0;
  for (const Piece& pages : what_is_left(begin, entry)) {
    make_private(pages, entry);
    left += pages.end - pages.begin;
  }
  if (entry.made_in == fork_generation()) ranges_.replace(begin, begin + entry.bytes, {});
  entries_.erase(found);
  for (std::byte* const block : entry.blocks) SharedHeap::of_process().deallocate(block);
  if (left < entry.bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("memory at {}: {}", static_cast<void*>(memory), there_is(entry.bytes, left)));
  }
}

std::optional<SharedHeap::Location> RegisteredMemory::find(const void* pointer, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto range = ranges_.first_behind(address);
  if (!range || range->begin >= address + bytes) return std::nullopt;
  SharedHeap::Location location{.segment = range->segment,
                                .offset = range->offset + (address - range->begin),
                                .anchor = range->offset,
                                .end = range->offset + (range->end - range->begin),
                                .registered = true};
  if (address >= range->begin) {
    location.anchor = location.offset;
  } else if (location.missing = range->begin - address; location.missing >= page_size()) {
    return std::nullopt;
  }
  return location;
}

bool RegisteredMemory::is_there(const SharedHeap::Location& location, const void* pointer, std::size_t bytes,
                                bool overwritten) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  // Offsets in the segment; those of words are multiples of a word's size, at both addresses.
  const std::uint64_t first = round_up(location.anchor, kWord);
  const std::uint64_t end = round_down(std::min(location.end, location.offset + bytes), kWord);
  if (end < first + kWord) return true;
  const std::uint64_t last = end - kWord;
  const std::uint64_t third = round_down((last - first) / 3, kWord);
  std::byte* const shared = SharedHeap::of_process().base(location.segment);
  const auto own = [&](std::uint64_t place) {
    return static_cast<const std::byte*>(
        pointer_to(reinterpret_cast<std::uintptr_t>(pointer) + (place - location.offset)));
  };
  const std::array places{first, first + third, last - third, last};
  const bool equal =
      std::ranges::all_of(places, [&](auto place) { return word_at(shared + place) == word_at(own(place)); });
  if (equal && (!overwritten || bytes < kShortestWritten || is_same_memory(shared + last, own(last)))) return true;

  const std::lock_guard lock(process_lock(ProcessLock::kRegistrations));
  const auto after = entries_.upper_bound(reinterpret_cast<std::uintptr_t>(own(first)));
  if (after == entries_.begin()) return false;
  auto& [begin, entry] = *std::prev(after);
  ranges_.replace(begin, begin + entry.bytes, {});
  entry.forgotten = true;
  log_warn("memory at {:#x}: {}", begin, there_is(entry.bytes, 0));
  return false;
}

void RegisteredMemory::check(const void* pointer, std::size_t bytes) {
  const auto location = find(pointer, bytes);
  if (!location) return;
  const std::lock_guard lock(process_lock(ProcessLock::kRegistrations));
  const auto* const first = static_cast<const std::byte*>(pointer) + location->missing;
  const auto after = entries_.upper_bound(reinterpret_cast<std::uintptr_t>(first));
  if (after == entries_.begin()) return;
  const auto& [begin, entry] = *std::prev(after);
  std::size_t left = 0;
  for (const Piece& pages : what_is_left(begin, entry)) left += pages.end - pages.begin;
  if (left == entry.bytes) return;
  throw Error(ErrorCode::kInvalidArgument, fmt::format("memory at {:#x}: {}", begin, there_is(entry.bytes, left)));
}

void RegisteredMemory::renew(std::byte* address, const SharedHeap::Location& pages) {
  const std::lock_guard lock(process_lock(ProcessLock::kRegistrations));
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = begin + (pages.end - pages.anchor);
  for (auto& [first, entry] : entries_) {
    if (first >= end || first + entry.bytes <= begin || entry.forgotten || entry.made_in != fork_generation()) continue;
    for (const Piece& left : what_is_left(first, entry)) {
      if (left.begin >= end || left.end <= begin) continue;
      const Piece part = left.part(begin, end);
      if (part.segment != pages.segment || part.offset != pages.anchor + (part.begin - begin)) continue;
      renew_piece(first, entry, part);
    }
  }
}

void RegisteredMemory::renew_piece(std::uintptr_t begin, Entry& entry, const Piece& old) {
  const std::size_t bytes = old.end - old.begin;
  entry.blocks.reserve(entry.blocks.size() + 1);
  const Piece fresh = allocate_piece(old.begin, old.end);
  try {
    std::vector<Piece> pieces;
    std::vector<RegisteredRanges::Range> ranges;
    const auto add = [&](const Piece& piece) {
      if (piece.begin >= piece.end) return;
      pieces.push_back(piece);
      ranges.push_back({piece.begin, piece.end, piece.segment, piece.offset});
    };
    for (const Piece& piece : entry.pieces) {
      if (piece.begin >= old.end || piece.end <= old.begin) {
        add(piece);
        continue;
      }
      add(piece.part(piece.begin, old.begin));
      add(fresh);
      add(piece.part(old.end, piece.end));
    }
    ranges_.make_room(ranges.size());
    std::memcpy(fresh.shared, pointer_to(old.begin), bytes);
    if (!replace_pages(pointer_to(old.begin), bytes, fresh.source(fresh.begin), old.source(old.begin))) {
      throw Error(ErrorCode::kSystem, fmt::format("cannot map {} bytes of shared memory again ({}; sysctl "
                                                  "vm.max_map_count bounds the mappings of a process)",
                                                  bytes, std::strerror(errno)));
    }
    entry.pieces = std::move(pieces);
    entry.blocks.push_back(fresh.shared);
    ranges_.replace(begin, begin + entry.bytes, ranges);
  } catch (...) {
    SharedHeap::of_process().deallocate(fresh.shared);
    throw;
  }
  punch_hole(old.source(old.begin), bytes);
}

// Under all locks: nothing here may take one.
void RegisteredMemory::in_child() noexcept {
  ranges_.clear();
  for (const auto& [begin, entry] : entries_) {
    try {
      for (const Piece& pages : what_is_left(begin, entry)) make_childs(pages);
    } catch (...) {
      // No descriptor or no memory to find out what is left: all of it, as callers promise.
      for (const Piece& pages : entry.pieces) make_childs(pages);
    }
  }
}

// Pages that hold what the parent's do, until the child writes there. Where the kernel refuses them the child has none:
// it must not write to the parent's.
void RegisteredMemory::make_childs(const Piece& pages) {
  const std::size_t bytes = pages.end - pages.begin;
  if (::mmap(pointer_to(pages.begin), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, pages.descriptor,
             static_cast<off_t>(pages.offset)) == MAP_FAILED) {
    ::munmap(pointer_to(pages.begin), bytes);
  }
}

}  // namespace tutti
