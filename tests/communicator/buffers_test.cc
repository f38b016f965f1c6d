#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "communicator/shared_memory.h"
#include "communicator/values.h"
#include "executor/signature.h"
#include "reduce/guarded_memory.h"
#include "support/ranks.h"
#include "tutti/memory.h"

namespace tutti {
namespace {

// Memory of either kind, the same size.
class EitherBuffer {
 public:
  explicit EitherBuffer(std::size_t bytes) : own_(new std::byte[bytes]), library_(allocate(bytes)) {}
  EitherBuffer(const EitherBuffer&) = delete;
  EitherBuffer& operator=(const EitherBuffer&) = delete;
  ~EitherBuffer() { deallocate(library_); }
  std::byte* get(bool library) { return library ? static_cast<std::byte*>(library_) : own_.get(); }

 private:
  std::unique_ptr<std::byte[]> own_;
  void* library_;
};

enum class Kinds { kPrivate, kLibrary, kMixed };

// Makes many calls with the same two buffers, which are overwritten as soon as each call has returned: a peer that
// still read the input would take garbage, one that still wrote the output would spoil the next call.
void call_and_overwrite(Communicator& communicator, Kinds kinds, int rounds) {
  constexpr std::size_t kCounts[] = {3, 16, 500, 1024, 5000, 40'000};
  constexpr std::size_t kMost = 40'000;
  const int rank = communicator.rank();
  const int ranks = communicator.ranks();
  const std::size_t bytes = kMost * sizeof(std::uint32_t) * static_cast<std::size_t>(ranks);
  EitherBuffer inputs(bytes), outputs(bytes);
  std::uint64_t number = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int c = 0; c < kCollectives; ++c) {
      for (const std::size_t count : kCounts) {
        const std::uint64_t dice = mix(++number);  // the same on all ranks
        TestCall call{static_cast<Collective>(c), DataType::kU32, ReduceOp::Kind::kSum, count, 0, dice % 3 == 0, dice};
        call.root = static_cast<int>(dice / 3 % static_cast<std::size_t>(ranks));
        const std::uint64_t own_dice = mix(number * 64 + static_cast<std::uint64_t>(rank));
        const auto library = [&](std::uint64_t bit) {
          return kinds == Kinds::kLibrary || (kinds == Kinds::kMixed && (own_dice >> bit & 1) != 0);
        };
        const std::size_t in = blocks_in(call, rank, ranks) * count;
        const std::size_t out = blocks_out(call, rank, ranks) * count;
        const auto [input, output] = buffers_of(call, rank, ranks, inputs.get(library(0)), outputs.get(library(1)));
        store_input(call, ranks, rank, input);

        doing(describe(call));
        issue(communicator, call, input, output);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < out; i += i < 64 ? 1 : 61) {
          const auto expected = output_code(call, ranks, rank, i);
          wrong += expected && load_code(call.type, output, i) != *expected;
        }
        ASSERT_EQ(wrong, 0u) << describe(call) << " on rank " << rank;
        std::memset(input, 0xEE, in * sizeof(std::uint32_t));
        std::memset(output, 0xDD, out * sizeof(std::uint32_t));
      }
    }
  }
}

std::string name_of(Kinds kinds) {
  if (kinds == Kinds::kMixed) return "Mixed";
  return kinds == Kinds::kPrivate ? "Private" : "Library";
}

class Buffers : public testing::TestWithParam<Kinds> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Buffers, testing::Values(Kinds::kPrivate, Kinds::kLibrary, Kinds::kMixed),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Buffers, AreTheCallersAgainWhenACallReturns) {
  if (GetParam() != Kinds::kPrivate && !kSeesSharedMemory) GTEST_SKIP() << kWhyItDoesNot;
  const int rounds = reduced() ? 1 : 6;
  for (const int ranks : {2, 3}) {
    expect_ranks(ranks, [&](Communicator& c) { call_and_overwrite(c, GetParam(), rounds); });
  }
  expect_ranks(
      5, [&](Communicator& c) { call_and_overwrite(c, GetParam(), 1); }, on_hosts({0, 1, 0, 1, 0}));
  expect_ranks(
      2, [&](Communicator& c) { call_and_overwrite(c, GetParam(), 1); }, over_tcp());
}

// What the library's memory is for: the peers read it where it lies.
TEST(LibraryBuffers, AreReadInPlaceByTheOtherRanksOfTheHost) {
  if (!kSeesSharedMemory) GTEST_SKIP() << kWhyItDoesNot;
  expect_ranks(2, [](Communicator& communicator) {
    constexpr std::size_t kCount = 100'000;
    EitherBuffer buffer(kCount * sizeof(float));
    expect_read_in_place(communicator, reinterpret_cast<float*>(buffer.get(true)), kCount);
  });
}

// Makes a call of floats whose sums are not exact with private buffers everywhere, then with others on each rank.
void check_bits(Communicator& communicator, TestCall call, EitherBuffer& inputs, EitherBuffer& outputs,
                std::vector<std::byte>& expected) {
  const int rank = communicator.rank();
  const int ranks = communicator.ranks();
  const std::size_t in = blocks_in(call, rank, ranks) * call.count;
  const std::size_t out = blocks_out(call, rank, ranks) * call.count;
  for (std::uint64_t kinds = 0; kinds < 6; ++kinds) {
    call.in_place = kinds >= 4;
    const std::uint64_t mine = kinds == 0 ? 0 : kinds + static_cast<std::uint64_t>(rank);
    const auto [input, output] =
        buffers_of(call, rank, ranks, inputs.get((mine & 1) != 0), outputs.get((mine & 2) != 0));
    auto* const values = reinterpret_cast<float*>(input);
    for (std::size_t i = 0; i < in; ++i) values[i] = uneven_value(rank, i);
    doing(describe(call));
    issue(communicator, call, input, output);
    if (kinds == 0) std::copy_n(output, out * sizeof(float), expected.begin());
    ASSERT_EQ(std::memcmp(output, expected.data(), out * sizeof(float)), 0) << describe(call) << " kinds " << kinds;
  }
}

// How a message travels depends on the buffers; what it says must not: of everything that adds up, in place and not.
// Sizes lie around those at which ways and store kinds change.
TEST(LibraryBuffers, GiveTheSameBitsAsPrivateOnes) {
  if (!kSeesSharedMemory) GTEST_SKIP() << kWhyItDoesNot;
  for (const int ranks : {2, 3}) {
    expect_ranks(ranks, [](Communicator& communicator) {
      constexpr std::size_t kMost = 300'001;
      EitherBuffer inputs(3 * kMost * sizeof(float)), outputs(kMost * sizeof(float));
      std::vector<std::byte> expected(kMost * sizeof(float));
      for (const std::size_t middle : {256, 512, 1024, 2048, 4096, 8192, 16'384, 65'536, 262'144, 300'000}) {
        for (const std::size_t count : {middle - 1, middle, middle + 1}) {
          for (const Collective collective :
               {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
            check_bits(communicator, {collective, DataType::kF32, ReduceOp::Kind::kSum, count, 1}, inputs, outputs,
                       expected);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
        if (reduced() && middle > 20'000) break;
      }
    });
  }
}

// Buffers that end where the next page may not be touched, or begin there, and are no longer there soon after the call:
// of every collective, in place and not, elements of every size, short calls and long ones.
TEST(Buffers, AreNeitherReadNorWrittenBeyondTheirEndsNorLater_F75) {
  prepare_reference();
  expect_ranks(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    std::uint64_t number = 0;
    for (int c = 0; c < kCollectives; ++c) {
      for (const DataType type : {DataType::kI8, DataType::kF16, DataType::kF32, DataType::kF64}) {
        for (const std::size_t count : {1, 3, 31, 97, 1001, 20'011}) {
          if (reduced() && count > 1001) continue;
          for (const bool in_place : {false, true}) {
            for (const bool at_end : {true, false}) {
              const TestCall call{static_cast<Collective>(c), type, ReduceOp::Kind::kSum, count, 1, in_place, ++number};
              const std::size_t first = bytes_of_first(call, rank, 3);
              const std::size_t second = bytes_of_second(call, rank, 3);
              const GuardedMemory firsts(first), seconds(second);
              doing(describe(call));
              ASSERT_EQ(perform_at(communicator, call, at_end ? firsts.end() - first : firsts.begin(),
                                   at_end ? seconds.end() - second : seconds.begin()),
                        "");
            }
          }
        }
      }
    }
  });
}

TEST(Allocation, IsZeroFilledAlignedAndReturned) {
  auto* first = static_cast<std::byte*>(allocate(100'000));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 4096, 0u);
  EXPECT_EQ(std::count(first, first + 100'000, std::byte{0}), 100'000);
  void* second = allocate(0);
  EXPECT_NE(second, nullptr);
  deallocate(first);
  deallocate(second);
  deallocate(nullptr);
  EXPECT_THROW(deallocate(first), Error);
  int local = 0;
  EXPECT_THROW(deallocate(&local), Error);
  try {
    allocate(~std::size_t{0} / 2);
    ADD_FAILURE() << "half of the address space was given out";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("bytes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tutti
