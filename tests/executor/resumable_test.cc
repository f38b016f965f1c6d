// A call's position lies in the call: any thread may carry it on, and one thread carries on many.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "collectives/registry.h"
#include "executor/signature.h"
#include "support/reference.h"
#include "support/world.h"

namespace tutti {
namespace {

constexpr std::size_t kCount = 700;
constexpr std::size_t kChunkBytes = 512;  // several rounds
constexpr int kMostTurns = 100'000;

// One all_reduce of all ranks of a communicator, of which some share memory and others talk over TCP.
class Job {
 public:
  explicit Job(const std::vector<int>& host_of) : world_(static_cast<int>(host_of.size()), {host_of, 2}) {
    const int ranks = world_.ranks();
    calls_.resize(host_of.size());
    done_.resize(host_of.size());
    for (int r = 0; r < ranks; ++r) {
      inputs_.emplace_back();
      for (std::size_t i = 0; i < kCount; ++i) inputs_.back().push_back(reference_input(r, i));
      outputs_.emplace_back(kCount);
    }
    for (int r = 0; r < ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      plans_.push_back(std::make_unique<Plan>(*find_algorithm(Collective::kAllReduce, "ring"), world_.layout(r)));
      Call& call = calls_[at];
      call.plan = plans_.back().get();
      call.reduction = {DataType::kF32, kSum, ranks, false, false};
      call.input = reinterpret_cast<const std::byte*>(inputs_[at].data());
      call.output = reinterpret_cast<std::byte*>(outputs_[at].data());
      call.element_bytes = sizeof(float);
      call.sequence = 1;
      call.signature = signature_of({Collective::kAllReduce, DataType::kF32, ReduceOp::Kind::kSum, 0, kCount}, 1);
      call.channels = 2;
      world_.executor(r).start(call, kCount, kChunkBytes);
    }
  }

  int ranks() const { return world_.ranks(); }
  // Carries on the call of one rank as far as it goes.
  void carry_on(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    world_.poll(rank);
    if (!done_[at]) done_[at] = world_.executor(rank).progress(calls_[at]) == Progress::kDone;
  }
  bool done() const {
    for (const bool one : done_) {
      if (!one) return false;
    }
    return true;
  }
  void expect_right() const {
    for (int r = 0; r < ranks(); ++r) {
      EXPECT_EQ(outputs_[static_cast<std::size_t>(r)], reference_output(Collective::kAllReduce, r, ranks(), 0, kCount));
    }
  }

 private:
  World world_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> outputs_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<Call> calls_;
  std::vector<bool> done_;
};

const std::vector<int> kPlacements[] = {{0, 0, 0}, {0, 1, 2}, {0, 0, 1, 1}};

TEST(Call, IsCarriedOnByAnotherThreadAtEveryTurn) {
  for (const std::vector<int>& host_of : kPlacements) {
    Job job(host_of);
    int turns = 0;
    for (; !job.done() && turns < kMostTurns; ++turns) {
      std::thread([&] { job.carry_on(turns % job.ranks()); }).join();
    }
    ASSERT_TRUE(job.done());
    EXPECT_GT(turns, 2 * job.ranks()) << "no call was ever left in the middle";
    job.expect_right();
  }
}

TEST(OneThread, CarriesOnCallsOfSeveralCommunicatorsSideBySide) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (const std::vector<int>& host_of : kPlacements) jobs.push_back(std::make_unique<Job>(host_of));
  const auto all_done = [&jobs] {
    for (const auto& job : jobs) {
      if (!job->done()) return false;
    }
    return true;
  };
  for (int turn = 0; !all_done() && turn < kMostTurns; ++turn) {
    for (const auto& job : jobs) job->carry_on(turn % job->ranks());
  }
  ASSERT_TRUE(all_done());
  for (const auto& job : jobs) job->expect_right();
}

}  // namespace
}  // namespace tutti
