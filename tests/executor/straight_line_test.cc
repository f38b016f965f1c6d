#include "executor/straight_line.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "collectives/registry.h"
#include "executor/signature.h"
#include "support/world.h"

namespace tutti {
namespace {

bool same_step(const Step& a, const Step& b) { return std::memcmp(&a, &b, sizeof(Step)) == 0; }

// Parameters: ranks, elements. Two elements travel in lines, two hundred in slots.
class StraightLine : public testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  StraightLine() : world_(ranks(), {}) {
    for (int r = 0; r < ranks(); ++r) {
      plans_.push_back(std::make_unique<Plan>(*find_algorithm(Collective::kAllReduce, "one_shot"), world_.layout(r)));
      inputs_.emplace_back(elements(), static_cast<float>(r + 1));
      outputs_.emplace_back(elements(), 0.0f);
    }
  }

  static int ranks() { return std::get<0>(GetParam()); }
  static std::size_t elements() { return std::get<1>(GetParam()); }

  Call make_call(int rank, std::uint64_t sequence) {
    const auto r = static_cast<std::size_t>(rank);
    Call call;
    call.plan = plans_[r].get();
    call.reduction = {DataType::kF32, kSum, ranks(), false, false};
    call.input = reinterpret_cast<const std::byte*>(inputs_[r].data());
    call.output = reinterpret_cast<std::byte*>(outputs_[r].data());
    call.element_bytes = sizeof(float);
    call.sequence = sequence;
    call.signature =
        signature_of({Collective::kAllReduce, DataType::kF32, ReduceOp::Kind::kSum, 0, elements()}, sequence);
    world_.executor(rank).start(call, elements(), 4096);
    return call;
  }

  std::vector<Step> run(Call& call, int rank) {
    std::vector<Step> trace;
    run_straight_line(
        call, world_.channel(rank, 0), [&trace](const Step& step) { trace.push_back(step); }, [] {});
    return trace;
  }

  World world_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> outputs_;
};

TEST_P(StraightLine, PerformsExactlyTheStepsOfOneShot) {
  std::vector<Call> calls;
  for (int r = 0; r < ranks(); ++r) calls.push_back(make_call(r, 1));
  for (int r = 0; r + 1 < ranks(); ++r) run(calls[static_cast<std::size_t>(r)], r);
  const int last = ranks() - 1;
  ASSERT_TRUE(calls.back().straight_line);
  const std::vector<Step> trace = run(calls.back(), last);
  const Plan& plan = *plans_.back();
  ASSERT_EQ(static_cast<int>(trace.size()), plan.steps(0));
  for (int i = 0; i < plan.steps(0); ++i) EXPECT_TRUE(same_step(trace[static_cast<std::size_t>(i)], plan.step(0, i)));
  EXPECT_EQ(outputs_.back().back(), static_cast<float>(ranks() * (ranks() + 1) / 2));
}

TEST_P(StraightLine, LeavesALatePeerToTheInterpreter) {
  for (std::uint64_t sequence = 1; sequence < 20; ++sequence) {  // longer than the window: credits must flow
    std::vector<Call> calls;
    for (int r = 0; r < ranks(); ++r) calls.push_back(make_call(r, sequence));
    EXPECT_EQ(run(calls[0], 0).size(), 1u) << "the value is sent, and nobody else has come yet";
    calls[0].straight_line = false;
    std::vector<Call*> all;
    for (Call& call : calls) all.push_back(&call);
    ASSERT_TRUE(world_.drive(all, sequence));
    for (const auto& output : outputs_) EXPECT_EQ(output.back(), static_cast<float>(ranks() * (ranks() + 1) / 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StraightLine, testing::Combine(testing::Values(2, 3, 5, 8), testing::Values(2, 200)));

}  // namespace
}  // namespace tutti
