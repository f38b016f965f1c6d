#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <fstream>

#include "base/handles.h"
#include "support/ranks.h"
#include "tutti/memory.h"

namespace tutti {
namespace {

constexpr std::size_t kCount = 2'200'000'000;  // more than 2^31

std::size_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;) {
    std::size_t kilobytes = 0;
    if (word == "MemAvailable:" && info >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

std::int8_t value_at(std::size_t index) { return static_cast<std::int8_t>(index % 251 + (index >> 24)); }

// More steps than a process can have segments of shared memory.
TEST(Large, ABufferThatGrowsStepByStepIsAlwaysGiven) {
  for (std::size_t step = 0; step < 80; ++step) {
    ASSERT_NO_THROW(deallocate(allocate((std::size_t{64} << 20) + step * 4096))) << "step " << step;
  }
}

TEST(Large, ABroadcastOfMoreElementsThanFitAnIntArrives_F69) {
  if (available_bytes() < std::size_t{6} << 30) GTEST_SKIP() << "needs 6 GiB of free memory";
  expect_ranks(2, [](Communicator& communicator) {
    void* address = ::mmap(nullptr, kCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(address, MAP_FAILED);
    const MappedMemory memory(address, kCount);
    auto* values = static_cast<std::int8_t*>(address);
    if (communicator.rank() == 0) {
      for (std::size_t i = 0; i < kCount; ++i) values[i] = value_at(i);
    }
    communicator.broadcast(values, values, kCount, DataType::kI8, 0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kCount; ++i) wrong += values[i] != value_at(i);
    EXPECT_EQ(wrong, 0u);
  });
}

}  // namespace
}  // namespace tutti
