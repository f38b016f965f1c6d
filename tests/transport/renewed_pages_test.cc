// Memory that a peer may still write to although nobody expects that any more: other pages take its place.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/handles.h"
#include "transport/shm/pages.h"
#include "transport/shm/registered_memory.h"
#include "transport/shm/shared_heap.h"

namespace tutti {
namespace {

SharedHeap& heap() { return SharedHeap::of_process(); }

std::size_t mappings() {
  std::size_t lines = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

// Memory of either kind, and what a call finds out about it.
class Buffer {
 public:
  Buffer(bool registered, std::size_t pages) : pages_(pages) {
    const std::size_t bytes = pages * page_size();
    if (registered) {
      own_ = MappedMemory(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes);
      data_ = own_.data();
      registered_ = RegisteredMemory::of_process().add(data_, bytes).begin;
    } else {
      data_ = static_cast<std::byte*>(heap().allocate(bytes));
    }
    for (std::size_t page = 0; page < pages; ++page) fill(page, static_cast<int>(page + 1));
  }
  ~Buffer() { free(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void free() {
    if (registered_ != nullptr) {
      RegisteredMemory::of_process().remove(registered_);
      registered_ = nullptr;
    } else if (!own_ && data_ != nullptr) {
      heap().deallocate(data_);
    }
    data_ = nullptr;
  }

  std::byte* page(std::size_t number) const { return data_ + number * page_size(); }
  void fill(std::size_t number, int value) const { std::memset(page(number), value, page_size()); }
  bool holds(std::size_t number, int value) const {
    const std::vector<std::byte> expected(page_size(), static_cast<std::byte>(value));
    return std::memcmp(page(number), expected.data(), page_size()) == 0;
  }

  SharedHeap::Location find(std::size_t first, std::size_t pages) const {
    const auto found = heap().find(page(first), pages * page_size());
    return found ? *found : RegisteredMemory::of_process().find(page(first), pages * page_size()).value();
  }
  // What peers are told of these pages.
  SharedHeap::Location lend(std::size_t first, std::size_t pages) const {
    SharedHeap::Location lent = find(first, pages);
    lent.end = lent.anchor + pages * page_size();
    return lent;
  }
  void renew(std::size_t first, const SharedHeap::Location& lent) const {
    if (!heap().renew(page(first), lent)) RegisteredMemory::of_process().renew(page(first), lent);
  }

 private:
  std::size_t pages_;
  MappedMemory own_;
  std::byte* data_ = nullptr;
  std::byte* registered_ = nullptr;
};

// What a peer maps, which knows nothing of what becomes of it here.
class Peer {
 public:
  explicit Peer(const SharedHeap::Location& pages)
      : pages_(pages), memory_(map_shared(heap().offer(pages.segment).descriptor, heap().offer(pages.segment).bytes)) {}
  void write(int value) const { std::memset(memory_.data() + pages_.anchor, value, pages_.end - pages_.anchor); }
  int first() const { return std::to_integer<int>(memory_.data()[pages_.anchor]); }

 private:
  SharedHeap::Location pages_;
  MappedMemory memory_;
};

class RenewedPages : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Memory, RenewedPages, testing::Bool(),
                         [](const auto& info) { return info.param ? "Registered" : "Allocated"; });

TEST_P(RenewedPages, HideLateWritesAndKeepTheContents_D2) {
  const Buffer buffer(GetParam(), 10);
  const SharedHeap::Location lent = buffer.lend(2, 6);
  const Peer late(lent);
  const Peer beside(buffer.lend(8, 1));
  heap().hold(lent);
  buffer.renew(2, lent);
  for (std::size_t page = 0; page < 10; ++page) EXPECT_TRUE(buffer.holds(page, static_cast<int>(page + 1))) << page;
  late.write(0xEE);
  for (std::size_t page = 0; page < 10; ++page) EXPECT_TRUE(buffer.holds(page, static_cast<int>(page + 1))) << page;
  beside.write(0x77);
  EXPECT_TRUE(buffer.holds(8, 0x77)) << "what was not lent is where it was";
  heap().release(lent);
}

TEST_P(RenewedPages, AreSeenByPeersThatAreToldOfThem_D2) {
  const Buffer buffer(GetParam(), 10);
  const SharedHeap::Location lent = buffer.lend(2, 6);
  heap().hold(lent);
  buffer.renew(2, lent);
  const SharedHeap::Location all = buffer.find(0, 10);
  EXPECT_EQ(all.end - all.offset, 2 * page_size()) << "the rest lies elsewhere";
  EXPECT_TRUE(all.holds(0, 2 * page_size()));
  EXPECT_FALSE(all.holds(page_size(), 2 * page_size()));
  const SharedHeap::Location fresh = buffer.lend(2, 6);
  EXPECT_TRUE(fresh.segment != lent.segment || fresh.offset != lent.offset);
  const Peer peer(fresh);
  EXPECT_EQ(peer.first(), 3);
  peer.write(0x55);
  for (std::size_t page = 2; page < 8; ++page) EXPECT_TRUE(buffer.holds(page, 0x55)) << page;
  buffer.fill(2, 0x66);
  EXPECT_EQ(peer.first(), 0x66);
  // From amid a page on, and to behind them.
  const auto amid = heap().find(buffer.page(2) - 100, 7 * page_size());
  const auto found = amid ? *amid : RegisteredMemory::of_process().find(buffer.page(2) - 100, 7 * page_size()).value();
  if (found.missing != 0) {
    EXPECT_EQ(found.missing, 100u);
    EXPECT_EQ(found.anchor, fresh.offset);
    EXPECT_EQ(found.end, fresh.end);
  } else {
    EXPECT_EQ(found.end - found.offset, 100u);
  }
  EXPECT_TRUE(RegisteredMemory::of_process().find(buffer.page(2), page_size()).has_value() == GetParam());
  heap().release(lent);
}

TEST_P(RenewedPages, AreRenewedAgainWhollyAndInPart_D2) {
  const Buffer buffer(GetParam(), 12);
  std::vector<SharedHeap::Location> lent;
  std::vector<Peer> late;
  const auto fail = [&](std::size_t first, std::size_t pages) {
    lent.push_back(buffer.lend(first, pages));
    late.emplace_back(lent.back());
    heap().hold(lent.back());
    buffer.renew(first, lent.back());
  };
  fail(1, 8);
  fail(1, 8);
  fail(3, 2);
  fail(4, 1);
  fail(1, 2);
  for (const Peer& peer : late) peer.write(0xEE);
  for (std::size_t page = 0; page < 12; ++page) EXPECT_TRUE(buffer.holds(page, static_cast<int>(page + 1))) << page;
  for (std::size_t page = 0; page < 12; ++page)
    EXPECT_EQ(Peer(buffer.lend(page, 1)).first(), static_cast<int>(page + 1));
  for (const auto& one : lent) heap().release(one);
}

// The same pages were lent by two communicators, both of which have failed.
TEST_P(RenewedPages, AreNotRenewedForTwo_D2) {
  const Buffer buffer(GetParam(), 6);
  const SharedHeap::Location lent = buffer.lend(1, 4);
  const SharedHeap::Location less = buffer.lend(2, 1);
  heap().hold(lent);
  heap().hold(less);
  buffer.renew(1, lent);
  const SharedHeap::Location fresh = buffer.lend(1, 4);
  buffer.renew(2, less);
  buffer.renew(1, lent);
  EXPECT_EQ(buffer.lend(1, 4).offset, fresh.offset);
  EXPECT_EQ(buffer.lend(2, 1).offset, fresh.offset + page_size());
  for (std::size_t page = 0; page < 6; ++page) EXPECT_TRUE(buffer.holds(page, static_cast<int>(page + 1))) << page;
  heap().release(lent);
  heap().release(less);
}

TEST_P(RenewedPages, LeaveNothingWhenTheMemoryIsFreed_D2) {
  { const Buffer first(GetParam(), 8); }  // what is made once is made
  const std::size_t before = mappings();
  Buffer buffer(GetParam(), 8);
  const std::byte* const place = buffer.page(0);
  const SharedHeap::Location lent = buffer.lend(1, 6);
  const Peer late(lent);
  heap().hold(lent);
  buffer.renew(1, lent);
  buffer.free();
  late.write(0xEE);
  {
    const Buffer other(GetParam(), 8);
    if (!GetParam()) {
      EXPECT_NE(other.page(0), place) << "a peer may still write there";
    }
    for (std::size_t page = 0; page < 8; ++page) EXPECT_TRUE(other.holds(page, static_cast<int>(page + 1)));
  }
  heap().release(lent);
  if (GetParam()) return;
  const Buffer again(false, 8);
  EXPECT_EQ(again.page(0), place);
  const SharedHeap::Location all = again.find(0, 8);
  EXPECT_TRUE(all.holds(0, 8 * page_size())) << "its own pages are back";
  EXPECT_EQ(Peer(again.lend(1, 6)).first(), 2);
  EXPECT_LE(mappings(), before + 1) << "and nothing else is mapped there";  // `late`
}

TEST_P(RenewedPages, AreNotThoseOfMemoryThatWasFreed_D2) {
  Buffer buffer(GetParam(), 4);
  std::byte* const place = buffer.page(1);
  const SharedHeap::Location lent = buffer.lend(1, 2);
  heap().hold(lent);
  buffer.free();
  const std::size_t before = mappings();
  if (!heap().renew(place, lent)) RegisteredMemory::of_process().renew(place, lent);
  EXPECT_EQ(mappings(), before);
  heap().release(lent);
}

TEST_P(RenewedPages, AreSafeFromAForkedChild_D2) {
  Buffer buffer(GetParam(), 6);
  const SharedHeap::Location lent = buffer.lend(1, 4);
  heap().hold(lent);
  buffer.renew(1, lent);
  const SharedHeap::Location fresh = buffer.lend(1, 4);
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = true;
    for (std::size_t page = 0; page < 6; ++page) right = right && buffer.holds(page, static_cast<int>(page + 1));
    if (GetParam()) buffer.fill(2, 0xEE);  // its own, from now on
    buffer.renew(1, fresh);
    buffer.free();
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  for (std::size_t page = 0; page < 6; ++page) EXPECT_TRUE(buffer.holds(page, static_cast<int>(page + 1))) << page;
  EXPECT_EQ(Peer(buffer.lend(1, 4)).first(), 2);
  heap().release(lent);
}

// One call's output may lie in several blocks.
TEST(HeldPages, AreThoseOfEveryBlockThatTheyReach_D2) {
  void* const first = heap().allocate(page_size());
  void* const second = heap().allocate(page_size());
  auto pages = *heap().find(first, 1);
  const auto next = *heap().find(second, 1);
  if (next.offset != pages.offset + page_size()) GTEST_SKIP() << "the heap has put something between them";
  pages.end = next.offset + page_size();
  heap().hold(pages);
  heap().deallocate(second);
  void* const other = heap().allocate(page_size());
  EXPECT_NE(other, second);
  heap().deallocate(other);
  heap().deallocate(first);
  heap().release(pages);
  void* const again = heap().allocate(2 * page_size());
  EXPECT_EQ(again, first);
  heap().deallocate(again);
}

}  // namespace
}  // namespace tutti
