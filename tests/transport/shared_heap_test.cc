// Where the memory of tutti::allocate lies: on which pages, and near which processor.
#include "transport/shm/shared_heap.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "transport/shm/pages.h"
#include "transport/shm/segment.h"

namespace tutti {
namespace {

class Block {
 public:
  explicit Block(std::size_t bytes) : bytes_(bytes), memory_(SharedHeap::of_process().allocate(bytes)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { SharedHeap::of_process().deallocate(memory_); }

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(memory_); }
  std::size_t pages() const { return (bytes_ + page_size() - 1) / page_size(); }

 private:
  std::size_t bytes_;
  void* memory_;
};

// Pages of the block that are in memory, whoever has touched them.
std::size_t resident(const Block& block) {
  std::vector<unsigned char> pages(block.pages());
  EXPECT_EQ(::mincore(block.data(), pages.size() * page_size(), pages.data()), 0);
  return static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(), [](auto page) { return (page & 1) != 0; }));
}

// A processor of each node that has some.
std::map<unsigned, int> processors_by_node() {
  std::map<unsigned, int> found;
  cpu_set_t before;
  if (::sched_getaffinity(0, sizeof(before), &before) != 0) return found;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &before)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    unsigned node = 0;
    if (::sched_setaffinity(0, sizeof(one), &one) == 0 && ::syscall(SYS_getcpu, nullptr, &node, nullptr) == 0) {
      found.emplace(node, processor);
    }
  }
  ::sched_setaffinity(0, sizeof(before), &before);
  return found;
}

// Of how many pages the kernel says that they lie on this node.
std::size_t pages_on(const Block& block, unsigned node) {
  std::vector<void*> pages;
  for (std::size_t i = 0; i < block.pages(); ++i) pages.push_back(block.data() + i * page_size());
  std::vector<int> nodes(pages.size(), -1);
  if (::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0) return 0;
  return static_cast<std::size_t>(std::count(nodes.begin(), nodes.end(), static_cast<int>(node)));
}

// A peer that reads or writes a page first would have it in its own node's memory.
TEST(SharedHeap, HasTouchedAllPagesBeforeAPeerCan) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100'000}, kHugePage + 5000, 3 * kHugePage}) {
    const Block block(bytes);
    EXPECT_EQ(resident(block), block.pages()) << bytes;
  }
}

TEST(SharedHeap, TakesMemoryOfTheNodeThatItsCallerRunsOn) {
  const auto processors = processors_by_node();
  if (processors.size() < 2) GTEST_SKIP() << "this machine has one NUMA node";
  for (const auto& [node, processor] : processors) {
    std::thread([node = node, processor = processor] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(processor, &one);
      ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
      const Block block(3 * kHugePage + 5000);
      EXPECT_EQ(pages_on(block, node), block.pages()) << "node " << node;
    }).join();
  }
}

// Segments begin at a multiple of a huge page, here and at every peer: what lies on its grid in one does in all.
TEST(SharedHeap, MapsSegmentsWhereHugePagesCanBeMapped) {
  for (const std::size_t bytes : {kHugePage, kHugePage + 1, 5 * kHugePage - page_size()}) {
    const Segment segment = Segment::create(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.data()) % kHugePage, 0u) << bytes;
    segment.data()[bytes - 1] = std::byte{1};
  }
}

TEST(SharedHeap, HasHugePagesWhereTheKernelGivesThem) {
  if (shared_huge_pages() == HugePages::kNever) GTEST_SKIP() << describe(HugePages::kNever);
  const Block small(5000);
  const Block block(4 * kHugePage);
  EXPECT_EQ(block.address() % kHugePage, 0u);
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  std::size_t kilobytes = 0;
  for (std::string line; std::getline(smaps, line);) {
    std::size_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2)
      inside = begin <= block.address() && block.address() < end;
    if (inside && line.starts_with("ShmemPmdMapped:")) kilobytes = std::stoul(line.substr(line.find(':') + 1));
  }
  EXPECT_GE(kilobytes, 4 * kHugePage / 1024);
}

TEST(SharedHugePages, AreWhatTheKernelSays) {
  EXPECT_EQ(shared_huge_pages("always within_size advise [never] deny force\n", ""), HugePages::kNever);
  EXPECT_EQ(shared_huge_pages("always within_size [advise] never deny force\n", ""), HugePages::kOnAdvice);
  EXPECT_EQ(shared_huge_pages("[always] within_size advise never deny force\n", ""), HugePages::kAlways);
  EXPECT_EQ(shared_huge_pages("", ""), HugePages::kNever);
  EXPECT_EQ(shared_huge_pages("]always[", ""), HugePages::kNever);
  const char* advise = "always within_size [advise] never deny force\n";
  EXPECT_EQ(shared_huge_pages(advise, "always [inherit] within_size advise never\n"), HugePages::kOnAdvice);
  EXPECT_EQ(shared_huge_pages(advise, "always inherit within_size advise [never]\n"), HugePages::kNever);
  EXPECT_EQ(shared_huge_pages("[never]", "always inherit within_size [advise] never\n"), HugePages::kOnAdvice);
}

TEST(SharedHugePages, AreSaidToBeMissingWithWhatToDo) {
  EXPECT_NE(describe(HugePages::kNever).find("echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"),
            std::string::npos);
}

// What a child inherits it may drop, as its destructors do: the memory is its parent's, who goes on using it.
TEST(SharedHeap, KeepsWhatAForkedChildDropsOfItsParents_D3) {
  constexpr std::size_t kBytes = 1 << 20;
  SharedHeap& heap = SharedHeap::of_process();
  auto* const dropped = static_cast<std::byte*>(heap.allocate(kBytes));
  auto* const held = static_cast<std::byte*>(heap.allocate(kBytes));
  const auto location = heap.find(held, kBytes);
  ASSERT_TRUE(location);
  heap.hold(*location);
  heap.deallocate(held);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char go;
    const bool told = ::read(ends[0], &go, 1) == 1;
    heap.release(*location);
    heap.deallocate(dropped);
    ::_exit(told ? 0 : 1);
  }
  // The parent hands the memory out again, and writes there, before the child lets go of it.
  heap.release(*location);
  auto* const again = static_cast<std::byte*>(heap.allocate(kBytes));
  std::fill_n(again, kBytes, std::byte{7});
  std::fill_n(dropped, kBytes, std::byte{7});
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(again, held) << "the test needs the block that was held";
  EXPECT_EQ(std::count(again, again + kBytes, std::byte{7}), static_cast<std::ptrdiff_t>(kBytes));
  EXPECT_EQ(std::count(dropped, dropped + kBytes, std::byte{7}), static_cast<std::ptrdiff_t>(kBytes));
  heap.deallocate(again);
  heap.deallocate(dropped);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace tutti
