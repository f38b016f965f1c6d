#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "communicator/shared_memory.h"
#include "communicator/values.h"
#include "executor/signature.h"
#include "support/ranks.h"
#include "tutti/memory.h"

namespace tutti {
namespace {

// Bytes at which something changes how values travel: in the line of a send or of a collective; in straight lines; in
// the short ring; read or written where they lie; in rounds; past the caches; going round the long ring. Of whole
// buffers, and of the parts of two ranks.
constexpr std::size_t kThresholds[] = {36,      72,      96,      192,       1024,      2048,
                                       4096,    8192,    16'384,  32'768,    65'536,    131'072,
                                       262'144, 524'288, 1048576, 2'097'152, 4'194'304, 8'388'608};
constexpr std::size_t kMost = 8'388'608 + 1;

std::size_t largest() { return reduced() ? 65'536 : kMost; }

// Memory of either kind between bytes that must stay as they are.
class Memory {
 public:
  Memory(std::size_t bytes, bool library)
      : bytes_(bytes),
        memory_(library ? Bytes(static_cast<std::byte*>(allocate(bytes + 2 * kGuard)), deallocate)
                        : Bytes(new std::byte[bytes + 2 * kGuard],
                                [](void* at) { delete[] static_cast<std::byte*>(at); })) {
    std::fill_n(memory_.get(), kGuard, kUntouched);
    std::fill_n(memory_.get() + kGuard + bytes, kGuard, kUntouched);
  }
  std::byte* get() { return memory_.get() + kGuard; }
  bool intact() const {
    const auto is_untouched = [](std::byte value) { return value == kUntouched; };
    return std::all_of(memory_.get(), memory_.get() + kGuard, is_untouched) &&
           std::all_of(memory_.get() + kGuard + bytes_, memory_.get() + bytes_ + 2 * kGuard, is_untouched);
  }

 private:
  using Bytes = std::unique_ptr<std::byte, void (*)(void*)>;
  static constexpr std::size_t kGuard = 128;
  static constexpr std::byte kUntouched{0xA5};

  std::size_t bytes_;
  Bytes memory_;
};

struct Way {
  const char* name;
  std::vector<int> host_of;
  bool library;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class Thresholds : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, Thresholds,
                         testing::Values(Way{"TwoRanksPrivate", {0, 0}, false}, Way{"TwoRanksLibrary", {0, 0}, true},
                                         Way{"ThreeRanksPrivate", {0, 0, 0}, false},
                                         Way{"ThreeRanksLibrary", {0, 0, 0}, true}, Way{"Tcp", {0, 1}, false}),
                         [](const auto& info) { return info.param.name; });

TEST_P(Thresholds, AndTheirNeighboursLoseNothingInAnyCollective) {
  if (GetParam().library && !kSeesSharedMemory) GTEST_SKIP() << kWhyItDoesNot;
  const auto ranks = static_cast<int>(GetParam().host_of.size());
  const bool library = GetParam().library;
  prepare_reference();
  expect_ranks(
      ranks,
      [&](Communicator& communicator) {
        const int rank = communicator.rank();
        std::uint64_t number = 0;
        for (int c = 0; c < kCollectives; ++c) {
          for (const std::size_t threshold : kThresholds) {
            for (const std::size_t count : {threshold - 1, threshold, threshold + 1}) {
              // The longest calls with one size, and not where blocks are as many as ranks.
              if (threshold > 1048576 && (count != threshold + 1 || c > 0)) continue;
              if (count > largest()) continue;
              const TestCall call{static_cast<Collective>(c),
                                  DataType::kU8,
                                  ReduceOp::Kind::kSum,
                                  count,
                                  static_cast<int>(count) % ranks,
                                  ++number % 2 == 0,
                                  number};
              Memory first(bytes_of_first(call, rank, ranks), library);
              Memory second(bytes_of_second(call, rank, ranks), library);
              doing(describe(call));
              ASSERT_EQ(perform_at(communicator, call, first.get(), second.get()), "");
              ASSERT_TRUE(first.intact() && second.intact()) << describe(call);
            }
          }
        }
      },
      on_hosts(GetParam().host_of));
}

TEST_P(Thresholds, AndTheirNeighboursLoseNothingBetweenTwo) {
  if (GetParam().library && !kSeesSharedMemory) GTEST_SKIP() << kWhyItDoesNot;
  const bool library = GetParam().library;
  expect_ranks(
      static_cast<int>(GetParam().host_of.size()),
      [&](Communicator& communicator) {
        if (communicator.rank() > 1) return;
        for (const std::size_t threshold : kThresholds) {
          for (const std::size_t count : {threshold - 1, threshold, threshold + 1}) {
            if (count > largest()) continue;
            Memory message(count, library);
            if (communicator.rank() == 0) {
              for (std::size_t i = 0; i < count; ++i) message.get()[i] = static_cast<std::byte>(mix(i + count));
              communicator.send(message.get(), count, DataType::kU8, 1);
              continue;
            }
            communicator.recv(message.get(), count, DataType::kU8, 0);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < count; ++i) wrong += message.get()[i] != static_cast<std::byte>(mix(i + count));
            ASSERT_EQ(wrong, 0u) << count << " bytes";
            ASSERT_TRUE(message.intact()) << count << " bytes";
          }
        }
      },
      on_hosts(GetParam().host_of));
}

}  // namespace
}  // namespace tutti
