// Memory of the caller's own in whose place shared pages were put.
#include "transport/shm/registered_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/handles.h"
#include "transport/shm/pages.h"
#include "tutti/error.h"

namespace tutti {
namespace {

RegisteredMemory& registered() { return RegisteredMemory::of_process(); }

// Private anonymous pages with a pattern.
class PrivatePages {
 public:
  explicit PrivatePages(std::size_t pages, int protection = PROT_READ | PROT_WRITE)
      : bytes_(pages * page_size()),
        memory_(::mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes_) {
    if ((protection & PROT_WRITE) != 0) fill(1);
  }
  std::byte* data() const { return memory_.data(); }
  std::size_t bytes() const { return bytes_; }
  void fill(unsigned seed) {
    for (std::size_t i = 0; i < bytes_; ++i) data()[i] = value(seed, i);
  }
  bool holds(unsigned seed) const {
    for (std::size_t i = 0; i < bytes_; ++i) {
      if (data()[i] != value(seed, i)) return false;
    }
    return true;
  }

 private:
  static std::byte value(unsigned seed, std::size_t i) { return static_cast<std::byte>(seed * 31 + i * 7 + i / 4096); }

  std::size_t bytes_;
  MappedMemory memory_;
};

std::byte* seen_by_peers(const SharedHeap::Location& location) {
  return SharedHeap::of_process().base(location.segment) + location.anchor;
}

std::string permissions_of(const std::byte* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto mappings = own_mappings(address, address + 1);
  return mappings.empty() ? "none" : mappings.front().permissions;
}

void expect_refused(void* memory, std::size_t bytes, const std::vector<std::string>& parts) {
  try {
    registered().add(memory, bytes);
    ADD_FAILURE() << "it was registered";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    const std::string text = error.what();
    EXPECT_NE(text.find("cannot register " + std::to_string(bytes)), std::string::npos) << text;
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " not in: " << text;
  }
}

void expect_lost(const std::function<void()>& call, const std::string& how_much) {
  try {
    call();
    ADD_FAILURE() << "nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    const std::string text = error.what();
    EXPECT_NE(text.find(how_much), std::string::npos) << text;
    EXPECT_NE(text.find("unregister memory first, then free it"), std::string::npos) << text;
  }
}

// What the child says about itself, as a line of text.
std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::string text;
    try {
      text = work();
    } catch (const std::exception& error) {
      text = error.what();
    }
    ::_exit(::write(ends[1], text.data(), text.size()) >= 0 ? 0 : 1);
  }
  ::close(ends[1]);
  char text[1000] = {};
  const ssize_t bytes = ::read(ends[0], text, sizeof(text) - 1);
  ::close(ends[0]);
  ::waitpid(pid, nullptr, 0);
  return bytes < 0 ? "nothing" : text;
}

TEST(RegisteredMemory, IsTheSameAtTheSameAddressAndSeenByPeers) {
  PrivatePages pages(20);
  ASSERT_FALSE(registered().find(pages.data(), pages.bytes()));
  const auto whole = registered().add(pages.data(), pages.bytes());
  EXPECT_EQ(whole.begin, pages.data());
  EXPECT_EQ(whole.bytes, pages.bytes());
  EXPECT_TRUE(pages.holds(1));
  EXPECT_EQ(permissions_of(pages.data()), "rw-s");
  const auto location = registered().find(pages.data() + 100, 5000);
  ASSERT_TRUE(location);
  EXPECT_TRUE(location->holds(0, 5000));
  EXPECT_EQ(std::memcmp(seen_by_peers(*location), pages.data() + 100, 5000), 0);
  seen_by_peers(*location)[7] = std::byte{0xAB};
  EXPECT_EQ(pages.data()[107], std::byte{0xAB});
  pages.fill(2);
  registered().remove(whole.begin);
  EXPECT_EQ(permissions_of(pages.data()), "rw-p");
  EXPECT_TRUE(pages.holds(2));
  EXPECT_FALSE(registered().find(pages.data(), pages.bytes()));
}

TEST(RegisteredMemory, IsTheWholePagesInside) {
  const std::size_t page = page_size();
  PrivatePages pages(6);
  const auto whole = registered().add(pages.data() + 100, 4 * page);
  EXPECT_EQ(whole.begin, pages.data() + page);
  EXPECT_EQ(whole.bytes, 3 * page);
  EXPECT_EQ(permissions_of(pages.data()), "rw-p");
  EXPECT_EQ(permissions_of(pages.data() + 4 * page), "rw-p");
  // The buffer as the caller has it: its ends are private.
  const auto location = registered().find(pages.data() + 100, 4 * page);
  ASSERT_TRUE(location);
  EXPECT_EQ(location->missing, page - 100);
  EXPECT_FALSE(location->holds(0, 200));
  EXPECT_FALSE(location->holds(page - 101, 200));
  EXPECT_TRUE(location->holds(page - 100, 3 * page));
  EXPECT_FALSE(location->holds(page - 100, 3 * page + 1));
  EXPECT_EQ(SharedHeap::of_process().base(location->segment)[location->offset + page], pages.data()[page + 100]);
  EXPECT_FALSE(registered().find(pages.data(), 4 * page)) << "begins a page before";
  EXPECT_FALSE(registered().find(pages.data() + 4 * page, page)) << "begins behind";
  EXPECT_FALSE(registered().find(pages.data() + 100, 200)) << "ends before";
  EXPECT_TRUE(registered().find(pages.data() + 1, page)) << "has a byte there";
  registered().remove(whole.begin);
  EXPECT_TRUE(pages.holds(1));
}

TEST(RegisteredMemory, MayBelongToAnAllocator) {
  for (const std::size_t bytes : {std::size_t{20'000}, std::size_t{5} << 20}) {
    std::vector<int> vector(bytes / sizeof(int), 3);
    const auto pages = registered().add(vector.data(), bytes);
    EXPECT_GE(pages.bytes + 2 * page_size(), bytes);
    EXPECT_EQ(std::count(vector.begin(), vector.end(), 3), static_cast<std::ptrdiff_t>(vector.size()));
    EXPECT_TRUE(registered().find(vector.data(), bytes));
    registered().remove(pages.begin);
    EXPECT_EQ(std::count(vector.begin(), vector.end(), 3), static_cast<std::ptrdiff_t>(vector.size()));
  }
}

TEST(RegisteredMemory, LeavesNothingBehind) {
  const auto mappings = [] { return own_mappings(0, ~std::uintptr_t{0}).size(); };
  PrivatePages pages(64);
  registered().remove(registered().add(pages.data(), pages.bytes()).begin);  // the heap behind it stays
  const std::size_t before = mappings();
  for (int i = 0; i < 1000; ++i) registered().remove(registered().add(pages.data(), pages.bytes()).begin);
  EXPECT_LE(mappings(), before + 20) << "after a thousand times; sanitizers map some of their own meanwhile";
  EXPECT_TRUE(pages.holds(1));
}

TEST(RegisteredMemory, HasHundredsOfPieces) {
  constexpr std::size_t kPieces = 500;
  PrivatePages pages(2 * kPieces);
  std::vector<std::byte*> begins;
  for (std::size_t i = 0; i < kPieces; ++i) {
    const std::size_t place = i * 7 % kPieces;  // in no order
    begins.push_back(registered().add(pages.data() + 2 * place * page_size(), page_size()).begin);
  }
  for (std::size_t i = 0; i < 2 * kPieces; ++i) {
    std::byte* const page = pages.data() + i * page_size();
    const auto location = registered().find(page, page_size());
    ASSERT_EQ(location.has_value(), i % 2 == 0) << i;
    if (!location) continue;
    ASSERT_EQ(std::memcmp(seen_by_peers(*location), page, page_size()), 0) << i;
  }
  for (std::byte* begin : begins) registered().remove(begin);
  EXPECT_TRUE(pages.holds(1));
  EXPECT_FALSE(registered().find(pages.data(), pages.bytes()));
}

// Whoever looks while others register finds his own memory, and nothing wrong.
TEST(RegisteredMemory, IsFoundWhileOthersComeAndGo) {
  PrivatePages own(4);
  PrivatePages others(200);
  const auto mine = registered().add(own.data(), own.bytes());
  const auto there = registered().find(own.data(), own.bytes());
  ASSERT_TRUE(there);
  std::atomic<bool> stop{false};
  std::thread registering([&] {
    while (!stop) {
      std::vector<std::byte*> begins;
      for (std::size_t i = 0; i < 200; i += 2) {
        begins.push_back(registered().add(others.data() + i * page_size(), page_size()).begin);
      }
      for (std::byte* begin : begins) registered().remove(begin);
    }
  });
  int missed = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto location = registered().find(own.data(), own.bytes());
    missed += !location;  // it gives up when somebody changes the list all the time
    ASSERT_TRUE(!location || location->offset == there->offset);
  }
  EXPECT_LT(missed, 100'000);
  stop = true;
  registering.join();
  registered().remove(mine.begin);
}

TEST(RegisteredMemory, IsRefusedWithTheReasonAndWhatToDo) {
  const std::size_t page = page_size();
  PrivatePages pages(8);
  expect_refused(nullptr, 100'000, {"null"});
  expect_refused(pages.data(), 0, {"no whole page", "tutti::allocate"});
  expect_refused(pages.data() + 1, 2 * page - 2, {"no whole page of " + std::to_string(page) + " bytes"});
  expect_refused(pages.data(), ~std::size_t{0}, {"end behind all memory"});
  expect_refused(reinterpret_cast<void*>(std::uintptr_t{16 * page}), 4 * page, {"there is no memory", "freed"});
  const PrivatePages constant(2, PROT_READ);
  expect_refused(constant.data(), constant.bytes(), {"r--p", "cannot be read and written"});
  expect_refused(reinterpret_cast<void*>(&page_size), 4 * page, {"belongs to a file"});
  const MappedMemory shared(::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
                            4 * page);
  expect_refused(shared.data(), 4 * page, {"shared already", "tutti::allocate"});
  void* const library = SharedHeap::of_process().allocate(4 * page);
  expect_refused(library, 4 * page, {"memory of tutti already"});
  SharedHeap::of_process().deallocate(library);
  alignas(4096) std::byte local[4 * 4096] = {};
  if (permissions_of(local) == "rw-p") {
    const auto address = reinterpret_cast<std::uintptr_t>(local);
    if (own_mappings(address, address + 1).front().name == "[stack]") {
      expect_refused(local, sizeof(local), {"[stack]", "only that is registered"});
    }
  }
  // A hole, and a mapping of another kind, in the middle.
  ::munmap(pages.data() + 3 * page, page);
  expect_refused(pages.data(), pages.bytes(), {"there is no memory at"});
  EXPECT_EQ(permissions_of(pages.data()), "rw-p") << "nothing has changed";
  EXPECT_FALSE(registered().find(pages.data(), pages.bytes()));
}

TEST(RegisteredMemory, MayNotOverlapAnother) {
  const std::size_t page = page_size();
  PrivatePages pages(12);
  const auto first = registered().add(pages.data() + 4 * page, 4 * page);
  expect_refused(pages.data() + 2 * page, 4 * page, {std::to_string(2 * page) + " of them overlap", "unregister"});
  expect_refused(pages.data() + 5 * page, page, {std::to_string(page) + " of them overlap"});
  expect_refused(pages.data(), pages.bytes(), {std::to_string(4 * page) + " of them overlap"});
  const auto before = registered().add(pages.data(), 4 * page);
  const auto behind = registered().add(pages.data() + 8 * page, 4 * page);
  registered().remove(first.begin);
  registered().remove(before.begin);
  registered().remove(behind.begin);
  EXPECT_TRUE(pages.holds(1));
  EXPECT_THROW(registered().remove(first.begin), Error) << "twice";
}

TEST(RegisteredMemory, SaysHowMuchWasAskedForWhenThereIsNotEnough) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than any limit leaves";
#endif
  const std::string text = in_child([] {
    constexpr std::size_t kBytes = std::size_t{600} << 20;
    void* const memory =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      registered().add(memory, kBytes);
    } catch (const Error& error) {
      return std::string(name(error.code())) + ": " + error.what() + " now " +
             permissions_of(static_cast<std::byte*>(memory));
    }
    return std::string("it was registered");
  });
  for (const char* part : {"system error: cannot map ", "available: ", " kB", "1073741824 bytes of address space",
                           "ulimit -v", "now rw-p"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

TEST(RegisteredMemory, StaysRegisteredWhenThereIsNoRoomForPrivatePages) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than any limit leaves";
#endif
  const std::string text = in_child([] {
    PrivatePages pages(1000);
    const auto whole = registered().add(pages.data(), pages.bytes());
    rlimit limit{1 << 20, RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
    std::string said = "unregistered";
    try {
      registered().remove(whole.begin);
    } catch (const Error& error) {
      said = error.what();
    }
    limit.rlim_cur = RLIM_INFINITY;
    ::setrlimit(RLIMIT_AS, &limit);
    if (!registered().find(pages.data(), pages.bytes())) return "gone: " + said;
    registered().remove(whole.begin);
    return pages.holds(1) ? said : "other contents";
  });
  EXPECT_NE(text.find("cannot unregister"), std::string::npos) << text;
}

TEST(RegisteredMemory, LeavesAloneWhatLiesWhereItWasUnmapped) {
  const std::size_t page = page_size();
  PrivatePages pages(8);
  const auto whole = registered().add(pages.data(), pages.bytes());
  // Half of it is unmapped, and a part of that given to somebody else.
  ::munmap(pages.data() + 4 * page, 4 * page);
  ASSERT_EQ(
      ::mmap(pages.data() + 4 * page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      pages.data() + 4 * page);
  std::memset(pages.data() + 4 * page, 0x55, page);
  expect_lost([&] { registered().check(pages.data(), pages.bytes()); }, std::to_string(4 * page) + " of ");
  expect_lost([&] { registered().remove(whole.begin); }, std::to_string(4 * page) + " of " + std::to_string(8 * page));
  EXPECT_FALSE(registered().find(pages.data(), pages.bytes()));
  EXPECT_EQ(std::count(pages.data() + 4 * page, pages.data() + 5 * page, std::byte{0x55}),
            static_cast<std::ptrdiff_t>(page));
  EXPECT_EQ(permissions_of(pages.data()), "rw-p");
  EXPECT_EQ(permissions_of(pages.data() + 5 * page), "none");
  PrivatePages again(8);
  registered().remove(registered().add(again.data(), again.bytes()).begin);
  EXPECT_TRUE(again.holds(1));
}

TEST(RegisteredMemory, IsMissedByCallsOnceOtherMemoryLiesThere) {
  constexpr std::size_t kPages = 16;
  for (const bool overwritten : {false, true}) {
    PrivatePages pages(kPages);
    const auto whole = registered().add(pages.data(), pages.bytes());
    const auto location = registered().find(pages.data(), pages.bytes());
    ASSERT_TRUE(location);
    EXPECT_TRUE(registered().is_there(*location, pages.data(), pages.bytes(), overwritten));
    EXPECT_TRUE(pages.holds(1)) << "looking has changed it";
    ASSERT_NE(
        ::mmap(pages.data(), pages.bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        MAP_FAILED);
    // What is to be overwritten is found out though it holds the same.
    pages.fill(overwritten ? 1 : 3);
    EXPECT_FALSE(registered().is_there(*location, pages.data(), pages.bytes(), overwritten));
    EXPECT_TRUE(pages.holds(overwritten ? 1 : 3));
    EXPECT_FALSE(registered().find(pages.data(), pages.bytes())) << "private from now on";
    expect_refused(pages.data(), pages.bytes(), {"which are registered (and were unmapped since): unregister those"});
    expect_lost([&] { registered().remove(whole.begin); }, std::to_string(pages.bytes()) + " of ");
    EXPECT_TRUE(pages.holds(overwritten ? 1 : 3));
  }
}

// A peer may still write to the output of a call that has failed: not to somebody else's memory.
TEST(RegisteredMemory, IsNotUsedAgainWhileAPeerMayWriteThere) {
  PrivatePages pages(4);
  const auto whole = registered().add(pages.data(), pages.bytes());
  const auto location = registered().find(pages.data() + 10, 100);
  ASSERT_TRUE(location);
  SharedHeap& heap = SharedHeap::of_process();
  heap.hold(*location);
  registered().remove(whole.begin);
  std::byte* const late = heap.base(location->segment) + location->anchor;
  *late = std::byte{0x77};
  EXPECT_TRUE(pages.holds(1));
  const auto again = registered().add(pages.data(), pages.bytes());
  EXPECT_NE(seen_by_peers(*registered().find(pages.data() + 10, 100)), late);
  registered().remove(again.begin);
  heap.release(*location);
}

TEST(RegisteredMemory, IsPrivateInAForkedChild) {
  PrivatePages pages(8);
  const auto whole = registered().add(pages.data(), pages.bytes());
  const std::string text = in_child([&] {
    if (!pages.holds(1)) return "other contents";
    if (registered().find(pages.data(), pages.bytes())) return "still registered";
    pages.fill(2);
    registered().remove(whole.begin);
    if (!pages.holds(2)) return "other contents after that";
    const auto own = registered().add(pages.data(), pages.bytes());
    pages.fill(4);
    registered().remove(own.begin);
    return pages.holds(4) ? "fine" : "its own registration lost its contents";
  });
  EXPECT_EQ(text, "fine");
  EXPECT_TRUE(pages.holds(1)) << "the child has written to its parent's memory";
  registered().remove(whole.begin);
  EXPECT_TRUE(pages.holds(1));
}

// A child that can open nothing cannot look at its mappings. It must not end, nor write to its parent's memory.
TEST(RegisteredMemory, IsPrivateInAForkedChildWithoutDescriptors_D10) {
  PrivatePages one(8), other(4);
  const auto first = registered().add(one.data(), one.bytes());
  const auto second = registered().add(other.data(), other.bytes());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::vector<int> taken;
  rlimit before;
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{std::min<rlim_t>(before.rlim_cur, 256), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  for (int fd; (fd = ::dup(ends[0])) >= 0;) taken.push_back(fd);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const bool same = one.holds(1) && other.holds(1);
    one.fill(2);
    other.fill(2);
    ::_exit(same && one.holds(2) && other.holds(2) ? 0 : 1);
  }
  for (const int fd : taken) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ::close(ends[0]);
  ::close(ends[1]);
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(one.holds(1) && other.holds(1)) << "the child has written to its parent's memory";
  registered().remove(first.begin);
  registered().remove(second.begin);
}

}  // namespace
}  // namespace tutti
