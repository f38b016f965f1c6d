#include "transport/shm/shared_heap.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/file_size_limit.h"
#include "base/log.h"
#include "base/random.h"
#include "transport/shm/pages.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// The first page of a segment holds its nonce; the rest is handed out.
constexpr std::size_t kReserved = SharedHeap::kAlignment;
// The most that is skipped of a new segment for a block that has to lie right.
constexpr std::size_t kMostSkipped = 2 * kHugePage;
constexpr std::size_t kArenaBytes = std::size_t{64} << 20;

// As long as wished, or shorter where files are limited. One that peers cannot map is better than none: what lies there
// goes through slots.
Segment make_segment(std::size_t wished, std::size_t needed) {
  const std::size_t most = round_down(file_size_limit().value_or(SIZE_MAX), page_size());
  const std::size_t bytes = std::max(std::min(wished, most), needed);
  try {
    return Segment::create(bytes);
  } catch (const NoSharedMemory& refusal) {
    static std::atomic<bool> told{false};
    log_line(told.exchange(true) ? LogLevel::kInfo : LogLevel::kWarn,
             fmt::format("buffers of this process are neither read nor written in place by other processes: {}",
                         refusal.what()));
    return Segment::create_private(bytes);
  }
}

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
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  return take(bytes, {huge ? kHugePage : kAlignment, 0}, "tutti::allocate");
}

std::byte* SharedHeap::allocate_for(std::uintptr_t address, std::size_t bytes) {
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  return take(round_up(bytes, kAlignment), grid_of(address, bytes), "registered memory");
}

SharedHeap::Grid SharedHeap::grid_of(std::uintptr_t address, std::size_t bytes) {
  const bool huge = bytes >= kHugePage && shared_huge_pages() != HugePages::kNever;
  const std::size_t unit = huge ? kHugePage : std::max(kAlignment, page_size());
  return {unit, address % unit};
}

std::byte* SharedHeap::take(std::size_t bytes, Grid grid, const char* purpose) {
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
  arena->segment = make_segment(std::max(kArenaBytes, all), kMostSkipped + bytes);
  fill_randomly(std::as_writable_bytes(std::span(&arena->nonce, 1)));
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
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (Arena* const arena = arena_at(address); arena != nullptr) {
    const auto block = arena->used.find(address - reinterpret_cast<std::uintptr_t>(arena->segment.data()));
    if (block != arena->used.end()) return free(*arena, block);
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("deallocate({}): tutti::allocate() did not return this pointer, or it was freed before", pointer));
}

SharedHeap::Arena* SharedHeap::arena_at(std::uintptr_t address) const {
  for (const auto& arena : arenas_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(arena->segment.data());
    if (address >= begin && address < begin + arena->segment.size()) return arena.get();
  }
  return nullptr;
}

void SharedHeap::free(Arena& arena, std::map<std::size_t, std::size_t>::iterator block) {
  const auto [offset, bytes] = *block;
  arena.used.erase(block);
  if (arena.renewed.contains(offset) && !restore(arena, offset, bytes)) return;
  if (const auto held = arena.held.find(offset); held != arena.held.end()) {
    held->second.freed = true;
    return;
  }
  give_back(arena, offset, bytes);
}

// Puts a block's own pages back at its addresses. False: they are lost, because the kernel refuses that, or because
// they are those of a forked child's parent.
bool SharedHeap::restore(Arena& arena, std::size_t offset, std::size_t bytes) {
  if (!arena.own()) return false;
  std::byte* const begin = arena.segment.data() + offset;
  if (!map_over(begin, bytes, {arena.segment.descriptor(), offset})) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  renewed_.replace(address, address + bytes, {});
  const auto renewed = arena.renewed.extract(offset);
  for (std::byte* const pages : renewed.mapped()) {
    Arena& theirs = *arena_at(reinterpret_cast<std::uintptr_t>(pages));
    free(theirs, theirs.used.find(static_cast<std::size_t>(pages - theirs.segment.data())));
  }
  return true;
}

void SharedHeap::hold(const Location& pages) {
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  Arena& arena = *arenas_[pages.segment - 1];
  auto block = arena.used.upper_bound(pages.anchor);
  if (block != arena.used.begin()) --block;
  for (; block != arena.used.end() && block->first < pages.end; ++block) {
    if (block->first + block->second <= pages.anchor) continue;
    Arena::Held& held = arena.held[block->first];
    held.bytes = block->second;
    ++held.holds;
  }
}

void SharedHeap::release(const Location& pages) {
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  Arena& arena = *arenas_[pages.segment - 1];
  auto held = arena.held.upper_bound(pages.anchor);
  if (held != arena.held.begin()) --held;
  while (held != arena.held.end() && held->first < pages.end) {
    if (held->first + held->second.bytes <= pages.anchor || --held->second.holds > 0) {
      ++held;
      continue;
    }
    if (held->second.freed) give_back(arena, held->first, held->second.bytes);
    held = arena.held.erase(held);
  }
}

bool SharedHeap::renew(std::byte* address, const Location& pages) {
  const std::lock_guard lock(process_lock(ProcessLock::kSharedHeap));
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  Arena* const arena = arena_at(begin);
  if (arena == nullptr) return false;
  if (!arena->own()) return true;
  // What was freed is nobody's: only in blocks that are used does anybody care.
  const auto base = reinterpret_cast<std::uintptr_t>(arena->segment.data());
  const std::uintptr_t end = begin + (pages.end - pages.anchor);
  auto block = arena->used.upper_bound(begin - base);
  if (block != arena->used.begin()) --block;
  for (; block != arena->used.end() && base + block->first < end; ++block) {
    const std::uintptr_t first = std::max(begin, base + block->first);
    const std::uintptr_t last = std::min(end, base + block->first + block->second);
    if (first < last) renew_within(*arena, block->first, first, last, begin, pages);
  }
  return true;
}

// Of a block's addresses from `begin` to `end`, those where the pages still lie that began at `address`.
void SharedHeap::renew_within(Arena& arena, std::size_t block, std::uintptr_t begin, std::uintptr_t end,
                              std::uintptr_t address, const Location& pages) {
  const auto base = reinterpret_cast<std::uintptr_t>(arena.segment.data());
  const std::uint64_t segment = find(arena.segment.data(), 1)->segment;
  while (begin < end) {
    RegisteredRanges::Range old{begin, end, segment, begin - base};
    if (const auto range = renewed_.first_behind(begin)) {
      if (range->begin <= begin) {
        old = {begin, std::min(end, range->end), range->segment, range->offset + (begin - range->begin)};
      } else {
        old.end = std::min(end, range->begin);
      }
    }
    begin = old.end;
    if (old.segment == pages.segment && old.offset == pages.anchor + (old.begin - address)) {
      renew_pages(arena.renewed[block], old);
    }
  }
}

void SharedHeap::renew_pages(std::vector<std::byte*>& renewed, const RegisteredRanges::Range& old) {
  const std::size_t bytes = old.end - old.begin;
  auto* const place = reinterpret_cast<std::byte*>(old.begin);
  renewed_.make_room(3);
  renewed.reserve(renewed.size() + 1);
  std::byte* const fresh = take(bytes, grid_of(old.begin, bytes), "buffers that peers may still write to");
  const Location location = *find(fresh, bytes);
  std::memcpy(fresh, place, bytes);
  if (!replace_pages(place, bytes, source_of(location.segment, location.offset), source_of(old.segment, old.offset))) {
    const int error = errno;
    Arena& arena = *arenas_[location.segment - 1];
    free(arena, arena.used.find(location.offset));
    throw Error(ErrorCode::kSystem, fmt::format("cannot map {} bytes of shared memory again ({}; sysctl "
                                                "vm.max_map_count bounds the mappings of a process)",
                                                bytes, std::strerror(error)));
  }
  renewed.push_back(fresh);
  // These, and what is left around them of pages that were renewed before.
  std::array<RegisteredRanges::Range, 3> ranges;
  std::size_t count = 0;
  const auto before = renewed_.first_behind(old.begin);
  const bool again = before && before->begin <= old.begin;
  if (again && before->begin < old.begin) {
    ranges[count++] = {before->begin, old.begin, before->segment, before->offset};
  }
  ranges[count++] = {old.begin, old.end, location.segment, location.offset};
  if (again && before->end > old.end) {
    ranges[count++] = {old.end, before->end, before->segment, before->offset + (old.end - before->begin)};
  }
  renewed_.replace(ranges[0].begin, ranges[count - 1].end, std::span(ranges.data(), count));
  punch_hole(source_of(old.segment, old.offset), bytes);
}

PageSource SharedHeap::source_of(std::uint64_t segment, std::uint64_t offset) const {
  return {arenas_[segment - 1]->segment.descriptor(), offset};
}

void SharedHeap::give_back(Arena& arena, std::size_t offset, std::size_t bytes) {
  // The parent, whose memory it is, may use it.
  if (!arena.own()) return;
  // The memory goes back to the system; the addresses stay, for peers that map the segment.
  arena.segment.release(offset, bytes);
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
    const Location location{
        .segment = i + 1, .offset = address - begin, .anchor = address - begin, .end = spans_[i].bytes};
    if (renewed_.empty()) [[likely]]
      return location;
    return find_renewed(location, address, bytes);
  }
  return std::nullopt;
}

std::optional<SharedHeap::Location> SharedHeap::find_renewed(Location location, std::uintptr_t address,
                                                             std::size_t bytes) const {
  std::optional<RegisteredRanges::Range> range;
  // Who does not know where it lies must not say that it lies here.
  if (!renewed_.look_behind(address, range)) return std::nullopt;
  if (!range || range->begin >= address + bytes) return location;
  if (range->begin > address && range->begin - address >= page_size()) {
    location.end = location.offset + (range->begin - address);
    location.registered = true;
    return location;
  }
  const std::uint64_t missing = range->begin > address ? range->begin - address : 0;
  const std::uint64_t offset = range->offset + (address - range->begin);
  return Location{.segment = range->segment,
                  .offset = offset,
                  .anchor = offset + missing,
                  .end = range->offset + (range->end - range->begin),
                  .missing = missing,
                  .registered = true};
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
