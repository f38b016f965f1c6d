#include "transport/shm/shared_heap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/log.h"
#include "transport/shm/pages.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// The first page of a segment holds its nonce; the rest is handed out.
constexpr std::size_t kReserved = SharedHeap::kAlignment;
// The most that is skipped of a new segment for a block that has to lie right.
constexpr std::size_t kMostSkipped = 2 * kHugePage;
constexpr std::size_t kArenaBytes = std::size_t{64} << 20;

}  // namespace

SharedHeap& SharedHeap::of_process() {
  // Never destroyed: static objects of the program may give their buffers back after it would be.
  static SharedHeap& heap = *new SharedHeap;
  return heap;
}

void* SharedHeap::allocate(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX - kArenaBytes) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("cannot allocate {} bytes", bytes));
  }
  bytes = std::max(round_up(bytes, kAlignment), kAlignment);
  const bool huge = bytes >= kHugePage && shared_huge_pages() != HugePages::kNever;
  return take(bytes, {huge ? kHugePage : kAlignment, 0}, "tutti::allocate");
}

std::byte* SharedHeap::allocate_for(std::uintptr_t address, std::size_t bytes) {
  const bool huge = bytes >= kHugePage && shared_huge_pages() != HugePages::kNever;
  const std::size_t unit = huge ? kHugePage : std::max(kAlignment, page_size());
  return take(round_up(bytes, kAlignment), {unit, address % unit}, "registered memory");
}

std::byte* SharedHeap::take(std::size_t bytes, Grid grid, const char* purpose) {
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  for (const auto& arena : arenas_) {
    if (!arena->own()) continue;
    if (std::byte* pointer = take_from(*arena, bytes, grid, purpose)) return pointer;
  }
  return take_from(add_arena(bytes), bytes, grid, purpose);
}

std::byte* SharedHeap::take_from(Arena& arena, std::size_t bytes, Grid grid, const char* purpose) {
  for (auto gap = arena.free.begin(); gap != arena.free.end(); ++gap) {
    const auto [begin, size] = *gap;
    const std::size_t end = begin + size;
    const std::size_t offset = begin + (grid.unit + grid.rest - begin % grid.unit) % grid.unit;
    if (offset > end || end - offset < bytes) continue;
    arena.segment.reserve(offset, bytes, purpose);
    arena.free.erase(gap);
    if (offset > begin) arena.free.emplace(begin, offset - begin);
    if (end > offset + bytes) arena.free.emplace(offset + bytes, end - offset - bytes);
    arena.used.emplace(offset, bytes);
    return arena.segment.data() + offset;
  }
  return nullptr;
}

SharedHeap::Arena& SharedHeap::add_arena(std::size_t bytes) {
  if (arenas_.size() == kMostSegments) {
    throw Error(ErrorCode::kSystem, fmt::format("cannot allocate {} bytes: {} segments of shared memory are in use and "
                                                "none has room; free some buffers, or allocate fewer, larger ones",
                                                bytes, kMostSegments));
  }
  auto arena = std::make_unique<Arena>();
  // Each as large as all before: then buffers that grow step by step do not use up the numbers. Pages that nobody asked
  // for take no memory.
  std::size_t all = 0;
  for (const auto& other : arenas_) all += other->segment.size();
  arena->segment = Segment::create(std::max({kArenaBytes, all, kMostSkipped + bytes}));
  randombytes_buf(&arena->nonce, sizeof(arena->nonce));
  std::memcpy(arena->segment.data(), &arena->nonce, sizeof(arena->nonce));
  arena->segment.prefer_huge_pages();
  if (arenas_.empty()) log_info("memory that ranks of a host share: {}", describe(shared_huge_pages()));
  arena->free.emplace(kReserved, arena->segment.size() - kReserved);
  spans_[arenas_.size()] = {arena->segment.data(), arena->segment.size()};
  arenas_.push_back(std::move(arena));
  publish(segments_, arenas_.size());  // observed by find()
  return *arenas_.back();
}

void SharedHeap::deallocate(void* pointer) {
  if (pointer == nullptr) return;
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  for (const auto& arena : arenas_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(arena->segment.data());
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address < begin || address >= begin + arena->segment.size()) continue;
    const auto used = arena->used.find(address - begin);
    if (used == arena->used.end()) break;
    const auto [offset, bytes] = *used;
    arena->used.erase(used);
    if (const auto held = arena->held.find(offset); held != arena->held.end()) {
      held->second.freed = true;
      return;
    }
    give_back(*arena, offset, bytes);
    return;
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("deallocate({}): tutti::allocate() did not return this pointer, or it was freed before", pointer));
}

void SharedHeap::hold(const Location& location) {
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  Arena& arena = *arenas_[location.segment - 1];
  const auto after = arena.used.upper_bound(location.anchor);
  if (after == arena.used.begin()) return;
  const auto [offset, bytes] = *std::prev(after);
  Arena::Held& held = arena.held[offset];
  held.bytes = bytes;
  ++held.holds;
}

void SharedHeap::release(const Location& location) {
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  Arena& arena = *arenas_[location.segment - 1];
  auto held = arena.held.upper_bound(location.anchor);
  if (held == arena.held.begin()) return;
  --held;
  if (--held->second.holds > 0) return;
  if (held->second.freed) give_back(arena, held->first, held->second.bytes);
  arena.held.erase(held);
}

void SharedHeap::give_back(Arena& arena, std::size_t offset, std::size_t bytes) {
  // The parent, whose memory it is, may use it.
  if (!arena.own()) return;
  // The memory goes back to the system; the addresses stay, for peers that map the segment.
  ::fallocate(arena.segment.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  const auto next = arena.free.find(offset + bytes);
  if (next != arena.free.end()) {
    bytes += next->second;
    arena.free.erase(next);
  }
  const auto after = arena.free.lower_bound(offset);
  if (after != arena.free.begin() && std::prev(after)->first + std::prev(after)->second == offset) {
    std::prev(after)->second += bytes;
  } else {
    arena.free.emplace(offset, bytes);
  }
}

std::optional<SharedHeap::Location> SharedHeap::find(const void* pointer, std::size_t bytes) const {
  const std::uint64_t segments = observe(segments_);  // published by add_arena()
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  for (std::uint64_t i = 0; i < segments; ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(spans_[i].begin);
    if (address < begin || address - begin + bytes > spans_[i].bytes) continue;
    return Location{.segment = i + 1, .offset = address - begin, .anchor = address - begin, .end = spans_[i].bytes};
  }
  return std::nullopt;
}

Offer SharedHeap::offer(std::uint64_t segment) const {
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  const Arena& arena = *arenas_[segment - 1];
  return {segment, static_cast<std::uint32_t>(::getpid()), arena.segment.descriptor(), arena.segment.size(),
          arena.nonce};
}

std::byte* SharedHeap::base(std::uint64_t segment) const { return spans_[segment - 1].begin; }

bool SharedHeap::made(const Offer& offer) const {
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  if (offer.segment == 0 || offer.segment > arenas_.size()) return false;
  const Arena& arena = *arenas_[offer.segment - 1];
  return offer.nonce == arena.nonce && offer.bytes == arena.segment.size();
}

}  // namespace tutti
