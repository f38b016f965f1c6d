// Memory of the caller's own that the other ranks of the host use in place.
#include "transport/shm/registered_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "communicator/shared_memory.h"
#include "communicator/values.h"
#include "executor/signature.h"
#include "support/ranks.h"
#include "transport/shm/pages.h"
#include "tutti/memory.h"

namespace tutti {
namespace {

class RegisteredBuffers : public testing::Test {
 protected:
  void SetUp() override {
    if (!kSeesSharedMemory) GTEST_SKIP() << kWhyItDoesNot;
  }
};

std::size_t mappings() {
  std::size_t lines = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

TEST_F(RegisteredBuffers, AreReadAndWrittenInPlaceByTheOtherRanksOfTheHost) {
  expect_ranks(2, [](Communicator& communicator) {
    constexpr std::size_t kCount = 1'000'000;
    std::vector<float> values(kCount);
    const Registration registration = register_memory(values.data(), kCount * sizeof(float));
    EXPECT_GT(registration.bytes(), kCount * sizeof(float) - 8192);
    expect_read_in_place(communicator, values.data(), kCount);
  });
}

// The first and last bytes of a buffer are private: where those end in it, and where messages do, varies.
TEST_F(RegisteredBuffers, GiveTheSameBitsAsPrivateOnes) {
  constexpr std::size_t kMost = 300'001;
  const std::size_t room = kMost + 2048;
  for (const int ranks : {2, 3}) {
    expect_ranks(ranks, [&](Communicator& communicator) {
      const auto rank = static_cast<std::uint64_t>(communicator.rank());
      std::vector<float> inputs(room), outputs(room), own(room), expected(kMost);
      // Neither begins nor ends with the memory.
      const Registration in = register_memory(inputs.data() + 1024, kMost * sizeof(float));
      const Registration out = register_memory(outputs.data() + 1024, kMost * sizeof(float));
      for (const std::size_t middle : {1024, 4096, 16'384, 65'536, 300'000}) {
        for (const std::size_t count : {middle - 1, middle, middle + 1}) {
          for (std::size_t shift = 0; shift <= 1024; shift += 341) {
            for (std::uint64_t kinds = 0; kinds < 4; ++kinds) {
              const std::uint64_t mine = kinds == 0 ? 0 : (kinds + rank) % 4;
              float* const input = ((mine & 1) != 0 ? inputs : own).data() + shift;
              float* const output = (mine & 2) != 0 ? outputs.data() + shift : expected.data();
              std::vector<float> first(kinds == 0 ? 0 : count);
              if (kinds != 0) std::copy_n(expected.data(), count, first.data());
              for (std::size_t i = 0; i < count; ++i) input[i] = uneven_value(communicator.rank(), i);
              std::fill_n(output, count, -1.0f);
              communicator.all_reduce(input, output, count, DataType::kF32, kSum);
              if (kinds == 0) continue;
              ASSERT_EQ(std::memcmp(output, first.data(), count * sizeof(float)), 0)
                  << count << " from " << shift << " kinds " << kinds;
              std::copy_n(first.data(), count, expected.data());
            }
          }
        }
        if (reduced() && middle > 10'000) break;
      }
    });
  }
}

TEST_F(RegisteredBuffers, ServeEveryCollective) {
  constexpr std::size_t kCount = 20'000;
  for (const int ranks : {2, 3}) {
    expect_ranks(ranks, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      const std::size_t bytes = kCount * sizeof(std::uint32_t) * static_cast<std::size_t>(ranks);
      std::vector<std::byte> inputs(bytes), outputs(bytes);
      Registration in = register_memory(inputs.data(), bytes);
      const Registration out = register_memory(outputs.data(), bytes);
      for (std::uint64_t number = 1; number < 80; ++number) {
        if (number == 40) in.unregister();
        const auto collective = static_cast<Collective>(number % static_cast<std::size_t>(kCollectives));
        const std::uint64_t dice = mix(number);
        TestCall call{collective, DataType::kU32, ReduceOp::Kind::kSum, kCount - number, 0, dice % 3 == 0, dice};
        call.root = static_cast<int>(dice / 3 % static_cast<std::size_t>(ranks));
        const std::size_t count = blocks_out(call, rank, ranks) * call.count;
        const auto [input, output] = buffers_of(call, rank, ranks, inputs.data(), outputs.data());
        store_input(call, ranks, rank, input);
        doing(describe(call));
        issue(communicator, call, input, output);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const auto expected = output_code(call, ranks, rank, i);
          wrong += expected && load_code(call.type, output, i) != *expected;
        }
        ASSERT_EQ(wrong, 0u) << describe(call) << " on rank " << rank;
      }
    });
  }
}

// Buffers that do not matter on a rank may be anything: also memory that was registered and is gone.
TEST_F(RegisteredBuffers, AreNotTouchedWhereTheyDoNotMatter) {
  expect_ranks(2, [](Communicator& communicator) {
    constexpr std::size_t kCount = 100'000;
    constexpr std::size_t kBytes = 2 * kCount * sizeof(float);
    void* const gone = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Registration registration = register_memory(gone, kBytes);
    // Nothing can be read there, and nobody else gets the place.
    ASSERT_EQ(::mmap(gone, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), gone);
    std::vector<float> data(2 * kCount, 1.0f);
    const bool root = communicator.rank() == 0;
    auto* const ignored = static_cast<float*>(gone);
    communicator.broadcast(root ? data.data() : ignored, data.data(), kCount, DataType::kF32, 0);
    communicator.reduce(data.data(), root ? data.data() : ignored, kCount, DataType::kF32, kSum, 0);
    communicator.scatter(root ? data.data() : ignored, data.data(), kCount, DataType::kF32, 0);
    communicator.gather(data.data(), root ? data.data() : ignored, kCount / 2, DataType::kF32, 0);
    EXPECT_THROW(registration.unregister(), Error);
    EXPECT_FALSE(registration);
    ::munmap(gone, kBytes);
  });
}

// The library cannot know that memory was unmapped; it must not take what lies there now for what peers see.
// A call looks whether registered memory is still there. It must not write to what it only reads: other calls and other
// threads may read there at the same time. Here such a write would end the program.
TEST_F(RegisteredBuffers, AreNotWrittenByCallsThatOnlyReadThem_D1) {
  expect_ranks(2, [](Communicator& communicator) {
    const std::size_t bytes = 16 * page_size();
    const int rank = communicator.rank();
    // A block each, the own one only read.
    void* const memory = ::mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* const all = static_cast<std::byte*>(memory);
    std::byte* const own = all + bytes * static_cast<std::size_t>(rank);
    std::fill_n(all, 2 * bytes, std::byte(rank + 1));
    const Registration registration = register_memory(all, 2 * bytes);
    ASSERT_EQ(registration.bytes(), 2 * bytes);
    std::vector<std::byte> there(2 * bytes);
    const auto protect = [&](std::byte* begin, std::size_t length, int access) {
      const auto location = RegisteredMemory::of_process().find(begin, length);
      ASSERT_TRUE(location);
      ASSERT_EQ(::mprotect(begin, length, access), 0);
      ASSERT_EQ(::mprotect(SharedHeap::of_process().base(location->segment) + location->offset, length, access), 0);
    };
    // Twice: the second call of a shape is kept from the first.
    for (int round = 0; round < 2; ++round) {
      protect(own, bytes, PROT_READ);
      communicator.all_gather(own, all, bytes, DataType::kU8);
      for (int root = 0; root < 2; ++root) {
        communicator.gather(own, rank == root ? all : nullptr, bytes, DataType::kU8, root);
        communicator.broadcast(rank == root ? own : nullptr, rank == root ? own : there.data(), bytes, DataType::kU8,
                               root);
        communicator.all_reduce(own, there.data(), bytes, DataType::kU8, kSum);
        communicator.reduce(own, rank == root ? there.data() : nullptr, bytes, DataType::kU8, kSum, root);
      }
      protect(all, 2 * bytes, PROT_READ);
      for (int root = 0; root < 2; ++root) {
        communicator.scatter(rank == root ? all : nullptr, rank == root ? own : there.data(), bytes, DataType::kU8,
                             root);
      }
      communicator.reduce_scatter(all, there.data(), bytes, DataType::kU8, kSum);
      communicator.all_to_all(all, there.data(), bytes, DataType::kU8);
      // A shape that was kept of a call out of place, then in place.
      protect(all, 2 * bytes, PROT_READ | PROT_WRITE);
      communicator.broadcast(there.data(), all, bytes / 2, DataType::kU8, 0);
      protect(own, bytes, PROT_READ);
      communicator.broadcast(rank == 0 ? own : nullptr, rank == 0 ? own : there.data(), bytes / 2, DataType::kU8, 0);
      protect(all, 2 * bytes, PROT_READ | PROT_WRITE);
      std::fill_n(all, 2 * bytes, std::byte(rank + 1));
    }
    communicator.barrier();
  });
}

TEST_F(RegisteredBuffers, ThatWereUnmappedAreUsedAsPrivateMemory) {
  expect_ranks(2, [](Communicator& communicator) {
    constexpr std::size_t kCount = 200'000;
    constexpr std::size_t kBytes = kCount * sizeof(float);
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* const values = static_cast<float*>(memory);
    Registration registration = register_memory(memory, kBytes);
    for (int i = 0; i < 6; ++i) {
      if (i == 3) {
        ASSERT_EQ(::mmap(memory, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  memory);
      }
      std::fill_n(values, kCount, static_cast<float>(i + 1));
      communicator.all_reduce(values, values, kCount, DataType::kF32, kSum);
      ASSERT_EQ(std::count(values, values + kCount, static_cast<float>(2 * i + 2)),
                static_cast<std::ptrdiff_t>(kCount));
    }
    EXPECT_THROW(registration.unregister(), Error);
    ::munmap(memory, kBytes);
  });
}

TEST_F(RegisteredBuffers, ThatWereUnmappedFailTheCallWhereMemoryIsChecked) {
  const auto body = [](Communicator& communicator) {
    constexpr std::size_t kCount = 100'000;
    constexpr std::size_t kBytes = kCount * sizeof(float);
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* const values = static_cast<float*>(memory);
    std::vector<float> other(kCount);
    Registration registration = register_memory(memory, kBytes);
    communicator.all_reduce(values, other.data(), kCount, DataType::kF32, kSum);
    ASSERT_EQ(::mmap(memory, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), memory);
    const std::vector<std::size_t> counts(2, kCount / 2);
    for (int form = 0; form < 2; ++form) {
      try {
        if (form == 0) communicator.all_reduce(other.data(), values, kCount, DataType::kF32, kSum);
        if (form == 1) communicator.all_gather_v(other.data(), values, counts, {}, DataType::kF32);
        ADD_FAILURE() << "nothing was found";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        const std::string text = error.what();
        for (const char* part : {form == 0 ? "all_reduce on" : "all_gather_v on", "output: memory at",
                                 "registered bytes were unmapped", "unregister memory first"}) {
          EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
        }
      }
    }
    communicator.all_reduce(other.data(), other.data(), kCount, DataType::kF32, kSum);
    EXPECT_THROW(registration.unregister(), Error);
    ::munmap(memory, kBytes);
  };
  expect_ranks(2, body, with_config({{"TUTTI_CHECK", "memory"}}));
}

TEST(Registration, EndsWithItsObject) {
  constexpr std::size_t kBytes = 100'000;
  std::vector<std::byte> memory(kBytes, std::byte{5});
  {
    Registration first = register_memory(memory.data(), kBytes);
    EXPECT_TRUE(first);
    EXPECT_EQ(first.bytes() % 4096, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 4096, 0u);
    EXPECT_THROW(static_cast<void>(register_memory(memory.data(), kBytes)), Error);
    Registration second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT: what is left of it is what is tested
    first.unregister();
    EXPECT_THROW(static_cast<void>(register_memory(memory.data(), kBytes)), Error);
    second.unregister();
    EXPECT_FALSE(second);
    second = register_memory(memory.data(), kBytes);
    std::vector<std::byte> other(kBytes);
    second = register_memory(other.data(), kBytes);
    const Registration again = register_memory(memory.data(), kBytes);
    second = {};
  }
  EXPECT_TRUE(register_memory(memory.data(), kBytes));
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{5}), static_cast<std::ptrdiff_t>(kBytes));
}

TEST_F(RegisteredBuffers, LeaveNoMappingBehind) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer keeps the mappings of what was freed";
#endif
  constexpr std::size_t kCount = 50'000;
  const auto use = [](Communicator& communicator) {
    std::vector<float> values(kCount, 1.0f);
    const Registration registration = register_memory(values.data(), kCount * sizeof(float));
    for (int i = 0; i < 5; ++i) communicator.all_reduce(values.data(), values.data(), kCount, DataType::kF32, kSum);
  };
  for (int i = 0; i < 3; ++i) expect_ranks(2, use);  // the heap behind it, and what threads leave in malloc's
  const std::size_t before = mappings();
  for (int i = 0; i < (reduced() ? 5 : 50); ++i) expect_ranks(2, use);
  EXPECT_LE(mappings(), before + 8) << "each would have left more than one";
}

}  // namespace
}  // namespace tutti
