#include "transport/shm/memory_left.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "transport/shm/segment.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// A /proc and a /sys of the test's own.
class MemoryLeftTest : public testing::Test {
 protected:
  MemoryLeftTest() : root_(testing::TempDir() + "tutti-memory-" + std::to_string(::getpid())) {
    write("/proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 8000 kB\nSwapFree: 500 kB\n");
  }
  ~MemoryLeftTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + file).parent_path());
    std::ofstream(root_ + file) << text;
  }
  void group(const std::string& folder, const std::string& limit, const std::string& usage) const {
    write(folder + "/memory.max", limit);
    write(folder + "/memory.current", usage);
  }
  std::string text() const { return memory_left(root_).text(); }

 private:
  const std::string root_;
};

TEST_F(MemoryLeftTest, IsWhatTheHostHas) {
  EXPECT_EQ(text(), "8500 kB");
  write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(text(), "8500 kB");
}

TEST_F(MemoryLeftTest, IsWhatTheNarrowestGroupLeaves) {
  write("/proc/self/cgroup", "1:cpu:/elsewhere\n0::/slice/job\n");
  group("/sys/fs/cgroup/slice/job", "max\n", "4096000\n");
  EXPECT_EQ(text(), "8500 kB");
  group("/sys/fs/cgroup/slice", "5120000\n", "4096000\n");
  EXPECT_EQ(text(), "1000 kB of the 5000 kB that /sys/fs/cgroup/slice/memory.max allows");
  write("/sys/fs/cgroup/slice/memory.stat", "anon 1\ninactive_file 1024000\nactive_file 102400\n");
  EXPECT_EQ(text(), "2100 kB of the 5000 kB that /sys/fs/cgroup/slice/memory.max allows");
  group("/sys/fs/cgroup/slice/job", "1024\n", "4096000\n");
  EXPECT_EQ(text(), "0 kB of the 1 kB that /sys/fs/cgroup/slice/job/memory.max allows");
}

TEST_F(MemoryLeftTest, IsFoundWhereAContainerSeesItsOwnGroupAsTheRoot) {
  write("/proc/self/cgroup", "0::/docker/abc\n");
  group("/sys/fs/cgroup", "2048000\n", "1024000\n");
  EXPECT_EQ(text(), "1000 kB of the 2000 kB that /sys/fs/cgroup/memory.max allows");
}

TEST_F(MemoryLeftTest, KnowsTheFirstVersionOfGroups) {
  write("/proc/self/cgroup", "5:cpu,memory:/job\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(text(), "8500 kB");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2048000\n");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1536000\n");
  write("/sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 512000\n");
  EXPECT_EQ(text(), "1000 kB of the 2000 kB that /sys/fs/cgroup/memory/job/memory.limit_in_bytes allows");
}

TEST(MemoryLeft, IsUnknownWhereNothingSaysSo) { EXPECT_EQ(memory_left("/nowhere").text(), "unknown"); }

// The kernel would take what there is and then end some process; nothing of that is tried.
TEST(MemoryLeft, IsLookedAtBeforeMemoryIsReserved) {
  const MemoryLeft left = memory_left();
  if (!left.bytes) GTEST_SKIP() << "this system does not say how much memory it has";
  const std::size_t bytes = static_cast<std::size_t>(*left.bytes) + (std::size_t{8} << 30);
  const Segment segment = Segment::create(bytes);
  try {
    segment.reserve(0, bytes, "a test");
    ADD_FAILURE() << "more memory was reserved than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    const std::string text = error.what();
    for (const std::string& part : {std::to_string(bytes) + " bytes", std::string("for a test"),
                                    std::string("available: "), std::string(" kB"), std::string("container's limit")}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    }
  }
}

}  // namespace
}  // namespace tutti
