// Every algorithm of every collective, executed on every kind of transport by one thread that drives all ranks.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "executor/signature.h"
#include "support/reference.h"
#include "support/world.h"
#include "transport/shm/shared_heap.h"

namespace tutti {
namespace {

constexpr std::size_t kChunkBytes = 512;  // small, so that few elements make several rounds
constexpr std::size_t kChunkElements = kChunkBytes / sizeof(float);
constexpr std::size_t kGuard = 64;  // elements around each buffer that must stay as they are
constexpr float kUntouched = -12345;

enum class Buffers { kPrivate, kShared };

// One rank's buffers for one call, with guards around them.
class GuardedBuffer {
 public:
  GuardedBuffer(std::size_t elements, Buffers kind) : elements_(elements) {
    const std::size_t all = elements + 2 * kGuard;
    if (kind == Buffers::kShared) {
      SharedHeap& heap = SharedHeap::of_process();
      shared_ =
          std::shared_ptr<void>(heap.allocate(all * sizeof(float)), [&heap](void* memory) { heap.deallocate(memory); });
      begin_ = static_cast<float*>(shared_.get());
    } else {
      private_.resize(all);
      begin_ = private_.data();
    }
    for (std::size_t i = 0; i < all; ++i) begin_[i] = kUntouched;
  }
  float* data() { return begin_ + kGuard; }
  std::size_t size() const { return elements_; }
  bool guards_untouched() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (begin_[i] != kUntouched || begin_[kGuard + elements_ + i] != kUntouched) return false;
    }
    return true;
  }

 private:
  std::size_t elements_;
  std::vector<float> private_;
  std::shared_ptr<void> shared_;  // has the shared heap's deleter
  float* begin_;
};

struct RankBuffers {
  std::unique_ptr<GuardedBuffer> input;
  std::unique_ptr<GuardedBuffer> output;
  float* in = nullptr;
  float* out = nullptr;
};

RankBuffers make_buffers(Collective collective, int rank, int ranks, int root, std::size_t count, bool in_place,
                         Buffers kind) {
  const std::size_t inputs = input_elements(collective, rank, ranks, root, count);
  const std::size_t outputs = output_elements(collective, rank, ranks, root, count);
  RankBuffers buffers;
  buffers.output = std::make_unique<GuardedBuffer>(in_place ? std::max(inputs, outputs) : outputs, kind);
  buffers.out = buffers.output->data();
  if (in_place) {
    buffers.in = buffers.out;
    const std::size_t own = static_cast<std::size_t>(rank) * count;
    if (inputs > 0 && outputs > inputs) buffers.in += own;
    if (outputs > 0 && inputs > outputs) buffers.out += own;
  } else {
    buffers.input = std::make_unique<GuardedBuffer>(inputs, kind);
    buffers.in = buffers.input->data();
  }
  for (std::size_t i = 0; i < inputs; ++i) buffers.in[i] = reference_input(rank, i);
  return buffers;
}

// Executes one call on all ranks and checks every rank's output.
void run_and_check(World& world, const Algorithm& algorithm, int root, std::size_t count, bool in_place,
                   std::uint64_t sequence, Buffers kind, std::size_t chunk_bytes = kChunkBytes) {
  const int ranks = world.ranks();
  const Collective collective = algorithm.collective;
  std::vector<RankBuffers> buffers;
  std::vector<std::unique_ptr<Plan>> plans;
  std::vector<Call> calls(static_cast<std::size_t>(ranks));
  const CallShape shape{collective, DataType::kF32, ReduceOp::Kind::kSum, static_cast<std::uint32_t>(root), count};
  for (int r = 0; r < ranks; ++r) {
    buffers.push_back(make_buffers(collective, r, ranks, root, count, in_place, kind));
    plans.push_back(std::make_unique<Plan>(algorithm, world.layout(r)));
    Call& call = calls[static_cast<std::size_t>(r)];
    call.plan = plans.back().get();
    call.reduction = {DataType::kF32, kSum, ranks, false, false};
    call.input = reinterpret_cast<const std::byte*>(buffers.back().in);
    call.output = reinterpret_cast<std::byte*>(buffers.back().out);
    call.element_bytes = sizeof(float);
    call.sequence = sequence;
    call.signature = signature_of(shape, sequence);
    call.root = root;
    call.channels = 1 + static_cast<int>(sequence % 2);
    call.in_place = in_place;
    world.executor(r).start(call, count, chunk_bytes);
  }
  ASSERT_TRUE(world.drive(calls, sequence)) << "nobody gets on";
  EXPECT_TRUE(world.quiet()) << "a message was left over";
  for (int r = 0; r < ranks; ++r) {
    RankBuffers& buffer = buffers[static_cast<std::size_t>(r)];
    const std::vector<float> expected = reference_output(collective, r, ranks, root, count);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(buffer.out[i], expected[i]) << "rank " << r << " element " << i;
    }
    EXPECT_TRUE(buffer.output->guards_untouched()) << "rank " << r;
    if (buffer.input == nullptr) continue;
    EXPECT_TRUE(buffer.input->guards_untouched()) << "rank " << r;
    for (std::size_t i = 0; i < buffer.input->size(); ++i)
      ASSERT_EQ(buffer.in[i], reference_input(r, i)) << "rank " << r;
  }
}

struct Fabric {
  const char* name;
  std::vector<int> (*host_of)(int ranks);
};

const Fabric kFabrics[] = {
    {"SharedMemory", [](int ranks) { return std::vector<int>(static_cast<std::size_t>(ranks), 0); }},
    {"Tcp",
     [](int ranks) {
       std::vector<int> hosts;
       for (int r = 0; r < ranks; ++r) hosts.push_back(r);
       return hosts;
     }},
    {"Mixed",
     [](int ranks) {
       std::vector<int> hosts;
       for (int r = 0; r < ranks; ++r) hosts.push_back(r * 2 / ranks);
       return hosts;
     }},
};

class Product : public testing::TestWithParam<std::tuple<int, int, Buffers>> {};

TEST_P(Product, EveryAlgorithmGivesTheReferenceResult) {
  const Fabric& fabric = kFabrics[static_cast<std::size_t>(std::get<0>(GetParam()))];
  const int ranks = std::get<1>(GetParam());
  const Buffers kind = std::get<2>(GetParam());
  WorldOptions options;
  options.host_of = fabric.host_of(ranks);
  options.channels = 2;
  World world(ranks, options);
  const auto n = static_cast<std::size_t>(ranks);
  const std::vector<std::size_t> counts = {0,
                                           1,
                                           7,
                                           kChunkElements - 1,
                                           kChunkElements,
                                           kChunkElements + 1,
                                           n * kChunkElements + 1,
                                           3 * n * kChunkElements - 1,
                                           1009};
  std::uint64_t sequence = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.applies(world.layout(0)) || is_vector(algorithm.collective)) continue;
    for (const int root : is_rooted(algorithm.collective) ? std::vector<int>{0, ranks - 1} : std::vector<int>{0}) {
      for (const std::size_t count : counts) {
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(std::string(name(algorithm.collective)) + " " + std::string(algorithm.name) + " root " +
                       std::to_string(root) + " count " + std::to_string(count) + (in_place ? " in place" : ""));
          run_and_check(world, algorithm, root, count, in_place, ++sequence, kind);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Product,
                         testing::Combine(testing::Values(0, 1, 2), testing::Values(1, 2, 3, 4, 5),
                                          testing::Values(Buffers::kPrivate, Buffers::kShared)),
                         [](const auto& info) {
                           return std::string(kFabrics[static_cast<std::size_t>(std::get<0>(info.param))].name) +
                                  std::to_string(std::get<1>(info.param)) +
                                  (std::get<2>(info.param) == Buffers::kShared ? "Shared" : "Private");
                         });

// Rings with room for two messages of every connection, as a schedule may ask: whoever holds back the credit for a slot
// can be waiting for somebody who needs that slot.
class SmallestRing : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(SmallestRing, IsEnoughForEveryAlgorithm) {
  const Fabric& fabric = kFabrics[static_cast<std::size_t>(std::get<0>(GetParam()))];
  const int ranks = std::get<1>(GetParam());
  WorldOptions options;
  options.host_of = fabric.host_of(ranks);
  options.channels = 2;
  options.large_ring_bytes = 64 * 1024;
  World world(ranks, options);
  std::uint64_t sequence = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.applies(world.layout(0)) || is_vector(algorithm.collective)) continue;
    const auto slots = 2 * static_cast<std::size_t>(algorithm.chunking(world.layout(0)).slot_chunks);
    const std::size_t chunk_bytes = options.large_ring_bytes / slots / 64 * 64;
    const std::size_t chunks = static_cast<std::size_t>(algorithm.chunking(world.layout(0)).chunks);
    const std::size_t count = 5 * chunks * chunk_bytes / sizeof(float) - 7;
    SCOPED_TRACE(std::string(name(algorithm.collective)) + " " + std::string(algorithm.name));
    for (int repeat = 0; repeat < 3; ++repeat) {
      run_and_check(world, algorithm, ranks - 1, count, false, ++sequence, Buffers::kPrivate, chunk_bytes);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, SmallestRing, testing::Combine(testing::Values(0, 1, 2), testing::Values(3, 5, 8)),
                         [](const auto& info) {
                           return std::string(kFabrics[static_cast<std::size_t>(std::get<0>(info.param))].name) +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace tutti
