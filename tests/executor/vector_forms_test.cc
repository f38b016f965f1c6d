// Every algorithm of the vector forms, with blocks of any length, on every kind of transport, by one thread that drives
// all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "executor/signature.h"
#include "support/reference.h"
#include "support/world.h"
#include "transport/shm/shared_heap.h"

namespace tutti {
namespace {

constexpr std::size_t kChunkBytes = 512;
constexpr std::size_t kChunkElements = kChunkBytes / sizeof(float);
constexpr float kUntouched = -12345;

// Blocks of one rank's input or output, in any order, with gaps between them and at both ends.
struct Side {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> offsets;
  std::size_t elements = 0;  // of the buffer

  BlockList list() const { return {counts.data(), offsets.data(), counts.size()}; }
};

Side lay_out(std::vector<std::size_t> counts, std::mt19937_64& random) {
  Side side;
  side.offsets.resize(counts.size());
  std::vector<std::size_t> order(counts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t block : order) {
    side.elements += random() % 4;
    side.offsets[block] = side.elements;
    side.elements += counts[block];
  }
  side.elements += 3;
  side.counts = std::move(counts);
  return side;
}

class Memory {
 public:
  Memory(std::size_t elements, bool shared) : elements_(elements) {
    if (shared) {
      SharedHeap& heap = SharedHeap::of_process();
      shared_ = std::shared_ptr<void>(heap.allocate(elements * sizeof(float)),
                                      [&heap](void* memory) { heap.deallocate(memory); });
      begin_ = static_cast<float*>(shared_.get());
    } else {
      private_.resize(elements);
      begin_ = private_.data();
    }
    std::fill_n(begin_, elements, kUntouched);
  }
  float* data() { return begin_; }
  std::size_t size() const { return elements_; }

 private:
  std::size_t elements_;
  std::vector<float> private_;
  std::shared_ptr<void> shared_;  // has the shared heap's deleter
  float* begin_ = nullptr;
};

struct Rank {
  Side in;
  Side out;
  BlockTable table;
  std::unique_ptr<Memory> input;  // null in place
  std::unique_ptr<Memory> output;
  float* input_start = nullptr;
  float* output_start = nullptr;
  std::vector<float> expected;  // of the whole output buffer
  std::unique_ptr<Plan> plan;
};

// counts[from][to]; one row, or one column, says all of it in the other forms.
using Counts = std::vector<std::vector<std::size_t>>;

std::size_t elements_between(Collective collective, const Counts& counts, std::size_t from, std::size_t to) {
  return collective == Collective::kAllGatherV       ? counts[from][from]
         : collective == Collective::kReduceScatterV ? counts[to][to]
                                                     : counts[from][to];
}

// Element `element` of the block that a rank gives.
float given(int from, int to, std::size_t element) {
  return reference_input(from, element * 3 + static_cast<std::size_t>(to) * 17);
}

float expected_value(Collective collective, int ranks, int from, int to, std::size_t element) {
  if (collective == Collective::kAllGatherV) return given(from, 0, element);
  if (collective == Collective::kAllToAllV) return given(from, to, element);
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += given(rank, to, element);
  return sum;
}

std::vector<Call*> pointers_to(std::vector<Call>& calls) {
  std::vector<Call*> pointers;
  for (Call& call : calls) pointers.push_back(&call);
  return pointers;
}

class Trial {
 public:
  Trial(World& world, const Algorithm& algorithm, const Counts& counts, bool in_place, bool shared,
        std::uint64_t sequence)
      : world_(world), algorithm_(algorithm), in_place_(in_place && algorithm.collective != Collective::kAllToAllV) {
    std::mt19937_64 random(sequence);
    ranks_.resize(static_cast<std::size_t>(world.ranks()));
    for (int rank = 0; rank < world.ranks(); ++rank) prepare(rank, counts, shared, random);
    calls_.resize(ranks_.size());
    for (int rank = 0; rank < world.ranks(); ++rank) start(rank, sequence);
  }

  void run(std::uint64_t seed) {
    ASSERT_TRUE(world_.drive(pointers_to(calls_), seed)) << "nobody gets on";
    check();
  }

  // The same over a network with faults.
  void run_over_faults(std::uint64_t seed) {
    std::vector<Task> tasks;
    for (int rank = 0; rank < world_.ranks(); ++rank) {
      tasks.push_back(world_.task(rank, calls_[static_cast<std::size_t>(rank)]));
    }
    const std::vector<Ending> endings = world_.run(tasks, seed);
    for (int rank = 0; rank < world_.ranks(); ++rank) {
      const Ending ending = endings[static_cast<std::size_t>(rank)];
      ASSERT_EQ(ending, Ending::kDone) << "rank " << rank << ": "
                                       << (ending == Ending::kFailed ? world_.health(rank).reason().what() : "stuck");
    }
    check();
  }

 private:
  void check() {
    EXPECT_TRUE(world_.quiet()) << "a message was left over";
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Rank& mine = ranks_[rank];
      for (std::size_t i = 0; i < mine.expected.size(); ++i) {
        ASSERT_EQ(mine.output->data()[i], mine.expected[i]) << "rank " << rank << " element " << i;
      }
    }
  }

  void prepare(int rank, const Counts& counts, bool shared, std::mt19937_64& random) {
    const Collective collective = algorithm_.collective;
    const std::size_t n = ranks_.size();
    const auto self = static_cast<std::size_t>(rank);
    std::vector<std::size_t> given_counts, taken_counts;
    for (std::size_t peer = 0; peer < n; ++peer) {
      given_counts.push_back(elements_between(collective, counts, self, peer));
      taken_counts.push_back(elements_between(collective, counts, peer, self));
    }
    if (collective == Collective::kAllGatherV) given_counts = {counts[self][self]};
    if (collective == Collective::kReduceScatterV) taken_counts = {counts[self][self]};
    Rank& mine = ranks_[self];
    mine.in = lay_out(given_counts, random);
    mine.out = lay_out(taken_counts, random);
    place(mine, self, shared);
    for (std::size_t block = 0; block < mine.in.counts.size(); ++block) {
      const int to = mine.in.counts.size() == 1 ? 0 : static_cast<int>(block);
      for (std::size_t i = 0; i < mine.in.counts[block]; ++i) {
        mine.input_start[mine.in.offsets[block] + i] = given(rank, collective == Collective::kAllGatherV ? 0 : to, i);
      }
    }
    mine.expected.assign(mine.output->data(), mine.output->data() + mine.output->size());
    const auto shift = static_cast<std::size_t>(mine.output_start - mine.output->data());
    for (std::size_t block = 0; block < mine.out.counts.size(); ++block) {
      const int from = mine.out.counts.size() == 1 ? rank : static_cast<int>(block);
      for (std::size_t i = 0; i < mine.out.counts[block]; ++i) {
        mine.expected[shift + mine.out.offsets[block] + i] = expected_value(collective, world_.ranks(), from, rank, i);
      }
    }
  }

  // In place, the single block of one side has no offset and lies where its block of the other side lies.
  void place(Rank& mine, std::size_t self, bool shared) {
    if (!in_place_) {
      mine.input = std::make_unique<Memory>(mine.in.elements, shared);
      mine.output = std::make_unique<Memory>(mine.out.elements, shared);
      mine.input_start = mine.input->data();
      mine.output_start = mine.output->data();
      return;
    }
    const bool gathers = mine.out.counts.size() > mine.in.counts.size();
    mine.output = std::make_unique<Memory>(gathers ? mine.out.elements : mine.in.elements, shared);
    Side& single = gathers ? mine.in : mine.out;
    const Side& all = gathers ? mine.out : mine.in;
    single.offsets = {0};
    mine.input_start = mine.output_start = mine.output->data();
    (gathers ? mine.input_start : mine.output_start) += all.offsets[all.counts.size() == 1 ? 0 : self];
  }

  void start(int rank, std::uint64_t sequence) {
    Rank& mine = ranks_[static_cast<std::size_t>(rank)];
    Call& call = calls_[static_cast<std::size_t>(rank)];
    mine.table = {mine.in.list(), mine.out.list()};
    mine.plan = std::make_unique<Plan>(algorithm_, world_.layout(rank));
    call.plan = mine.plan.get();
    call.reduction = {DataType::kF32, kSum, world_.ranks(), false, false};
    call.input = reinterpret_cast<const std::byte*>(mine.input_start);
    call.output = reinterpret_cast<std::byte*>(mine.output_start);
    call.element_bytes = sizeof(float);
    call.sequence = sequence;
    call.signature = signature_of({algorithm_.collective, DataType::kF32, ReduceOp::Kind::kSum, 0, 0}, sequence);
    call.blocks = &mine.table;
    call.counts_signed = algorithm_.collective == Collective::kAllToAllV;
    call.channels = 1 + static_cast<int>(sequence % 2);
    call.in_place = in_place_;
    world_.executor(rank).start(call, 0, kChunkBytes);
  }

  World& world_;
  const Algorithm& algorithm_;
  bool in_place_;
  std::vector<Rank> ranks_;
  std::vector<Call> calls_;
};

// 0, 1, around a chunk, around several, primes.
std::size_t any_count(std::mt19937_64& random) {
  const std::size_t counts[] = {0,
                                0,
                                1,
                                7,
                                kChunkElements - 1,
                                kChunkElements,
                                kChunkElements + 1,
                                3 * kChunkElements - 1,
                                5 * kChunkElements + 1,
                                random() % (4 * kChunkElements)};
  return counts[random() % std::size(counts)];
}

Counts any_counts(std::size_t ranks, std::mt19937_64& random) {
  Counts counts(ranks, std::vector<std::size_t>(ranks));
  for (auto& row : counts) {
    for (std::size_t& count : row) count = any_count(random);
  }
  return counts;
}

// All zero, and everything at one rank.
std::vector<Counts> extremes(std::size_t ranks) {
  const Counts none(ranks, std::vector<std::size_t>(ranks));
  Counts one = none;
  one[ranks / 2][ranks / 2] = 6 * kChunkElements + 5;
  one[ranks / 2][0] = 1;
  return {none, one};
}

struct Fabric {
  const char* name;
  int (*host_of)(int rank, int ranks);
};
const Fabric kFabrics[] = {{"SharedMemory", [](int, int) { return 0; }},
                           {"Tcp", [](int rank, int) { return rank; }},
                           {"Mixed", [](int rank, int ranks) { return rank * 2 / ranks; }}};

class VectorForms : public testing::TestWithParam<std::tuple<int, int, bool>> {};

TEST_P(VectorForms, GiveEachRankItsBlocksAndTouchNothingElse_F68) {
  const Fabric& fabric = kFabrics[static_cast<std::size_t>(std::get<0>(GetParam()))];
  const int ranks = std::get<1>(GetParam());
  const bool shared = std::get<2>(GetParam());
  WorldOptions options;
  for (int r = 0; r < ranks; ++r) options.host_of.push_back(fabric.host_of(r, ranks));
  options.channels = 2;
  World world(ranks, options);
  const std::uint64_t seed = 20261129 + static_cast<std::uint64_t>(ranks);
  std::mt19937_64 random(seed);
  std::vector<Counts> all = extremes(static_cast<std::size_t>(ranks));
  for (int i = 0; i < 4; ++i) all.push_back(any_counts(static_cast<std::size_t>(ranks), random));
  std::uint64_t sequence = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (!is_vector(algorithm.collective)) continue;
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(std::string(name(algorithm.collective)) + " " + std::string(algorithm.name) + ", counts " +
                     std::to_string(i) + " of seed " + std::to_string(seed) + (in_place ? ", in place" : ""));
        ++sequence;
        Trial(world, algorithm, all[i], in_place, shared, sequence).run(sequence);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, VectorForms,
                         testing::Combine(testing::Values(0, 1, 2), testing::Range(1, 10), testing::Bool()),
                         [](const auto& info) {
                           return std::string(kFabrics[static_cast<std::size_t>(std::get<0>(info.param))].name) +
                                  std::to_string(std::get<1>(info.param)) +
                                  (std::get<2>(info.param) ? "Library" : "Private");
                         });

// No more room for slots than the schedule asks for: messages that are left out must not be waited for.
TEST(VectorForms, NeedNoLargerSlotRingsThanTheirEvenForms) {
  for (const int ranks : {2, 5}) {
    for (const Fabric& fabric : kFabrics) {
      WorldOptions options;
      for (int r = 0; r < ranks; ++r) options.host_of.push_back(fabric.host_of(r, ranks));
      options.channels = 2;
      options.large_ring_bytes = 2 * static_cast<std::size_t>(std::max(ranks - 1, 2)) * kChunkBytes;
      World world(ranks, options);
      std::mt19937_64 random(7);
      std::uint64_t sequence = 0;
      for (const Algorithm& algorithm : algorithms()) {
        if (!is_vector(algorithm.collective)) continue;
        SCOPED_TRACE(std::string(name(algorithm.collective)) + " " + std::string(algorithm.name) + " " + fabric.name);
        for (int repeat = 0; repeat < 5; ++repeat) {
          ++sequence;
          Trial(world, algorithm, any_counts(static_cast<std::size_t>(ranks), random), false, false, sequence)
              .run(sequence);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(VectorForms, GiveRightResultsThoughMessagesAreLateAndCutShort) {
  for (const int ranks : {2, 3, 5}) {
    for (const Fabric& fabric : {kFabrics[1], kFabrics[2]}) {
      WorldOptions options;
      for (int r = 0; r < ranks; ++r) options.host_of.push_back(fabric.host_of(r, ranks));
      options.channels = 2;
      options.faults = true;
      World world(ranks, options);
      std::mt19937_64 random(20261129);
      std::uint64_t sequence = 0;
      for (const Algorithm& algorithm : algorithms()) {
        if (!is_vector(algorithm.collective)) continue;
        for (int trial = 0; trial < 12; ++trial) {
          const FaultPlan plan = FaultPlan::random(random(), 16 * kChunkBytes);
          SCOPED_TRACE(std::string(name(algorithm.collective)) + " " + std::string(algorithm.name) + "\n" +
                       plan.text());
          world.faults().set_plan(plan);
          ++sequence;
          Trial(world, algorithm, any_counts(static_cast<std::size_t>(ranks), random), trial % 2 == 0, trial % 3 == 0,
                sequence)
              .run_over_faults(random());
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

// The sender says another count than the receiver expects: nothing is stored.
TEST(VectorForms, ARankTellsAnotherCountOfAPairFromTheSignature_F67) {
  for (const Fabric& fabric : kFabrics) {
    for (const std::size_t said : {std::size_t{0}, std::size_t{5}, 7 * kChunkElements}) {
      WorldOptions options;
      options.host_of = {fabric.host_of(0, 2), fabric.host_of(1, 2)};
      World world(2, options);
      const std::size_t expected = 6;
      const std::size_t zero = 0;
      const std::size_t given[] = {said, 0}, taken[] = {0, expected}, nothing[] = {0, 0}, starts[] = {0, 0};
      std::vector<float> input(said + 1, 1.0f), output(8 * kChunkElements, kUntouched);
      const BlockTable tables[] = {{{nothing, starts, 2}, {taken, starts, 2}},
                                   {{given, starts, 2}, {nothing, starts, 2}}};
      std::vector<std::unique_ptr<Plan>> plans;
      std::vector<Call> calls(2);
      for (int r = 0; r < 2; ++r) {
        plans.push_back(std::make_unique<Plan>(*find_algorithm(Collective::kAllToAllV, "pairwise"), world.layout(r)));
        Call& call = calls[static_cast<std::size_t>(r)];
        call.plan = plans.back().get();
        call.input = reinterpret_cast<const std::byte*>(input.data());
        call.output = reinterpret_cast<std::byte*>(output.data());
        call.element_bytes = sizeof(float);
        call.sequence = 1;
        call.signature = signature_of({Collective::kAllToAllV, DataType::kF32, ReduceOp::Kind::kSum, 0, 0}, 1);
        call.blocks = &tables[r];
        call.counts_signed = true;
        world.executor(r).start(call, zero, kChunkBytes);
      }
      EXPECT_FALSE(world.drive(pointers_to(calls)));
      const Executor::Mismatch& mismatch = world.executor(0).mismatch();
      EXPECT_EQ(mismatch.peer, 1);
      EXPECT_EQ(count_in(mismatch.signature, calls[0].signature), said);
      world.executor(0).withdraw();
      EXPECT_EQ(std::count(output.begin(), output.end(), kUntouched), static_cast<std::ptrdiff_t>(output.size()));
    }
  }
}

}  // namespace
}  // namespace tutti
