#include "schedule/verifier.h"

#include <gtest/gtest.h>

#include "collectives/registry.h"
#include "schedule/expression.h"
#include "tiny_schedules.h"
#include "verdicts.h"

namespace tutti {
namespace {

TEST(Verifier, AcceptsTextbookSchedules) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    EXPECT_TRUE(is_right(verify_tiny(Collective::kAllReduce, one_shot(ranks), {}, true)));
    EXPECT_TRUE(is_right(verify_tiny(Collective::kAllReduce, ring(ranks), ring_chunking(ranks))));
  }
}

TEST(Verifier, CountsStepsAndMessages) {
  const Verdict verdict = verify_tiny(Collective::kAllReduce, ring(4), ring_chunking(4));
  EXPECT_EQ(verdict.steps, 7);
  EXPECT_EQ(verdict.messages, 24u);
}

TEST(Verifier, IsExactUpTo64RanksAndUsesFingerprintsBeyond) {
  for (const int ranks : {63, 64, 65, 200}) {
    Lists lists = one_shot(ranks);
    EXPECT_TRUE(is_right(verify_tiny(Collective::kAllReduce, lists, {}, true)));
    lists[5][1].from = 6;
    EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists),
                         {"rank 5", ranks <= 64 ? "from ranks 5, 6" : "2 of ", "expected chunk 0 from all ranks"}));
  }
}

TEST(Verifier, ServesLargeCommunicatorsToo) {
  for (const Algorithm& algorithm : algorithms()) {
    // Lists as long as the ranks are many cost the square of that.
    constexpr int kShortList = 64;
    const Placement large = even_placement(1000, 8);
    const bool is_short = algorithm.steps(large.layout(0), 0) <= kShortList && algorithm.name != "one_shot";
    const Placement placement = is_short ? even_placement(1000, 8) : even_placement(130, 3);
    if (!algorithm.applies(placement.layout(0))) continue;
    EXPECT_TRUE(is_right(verify(algorithm, placement, is_rooted(algorithm.collective) ? 77 : 0)))
        << algorithm.name << " " << name(algorithm.collective) << ", " << placement.ranks() << " ranks";
  }
}

TEST(Verifier, FindsAContributionThatIsMissing) {
  Lists lists = one_shot(3);
  lists[1] = {first(send(in(0), kEveryone)), first(reduce(in(0), 0, temp(0))), last(copy(temp(0), out(0)))};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, {1, 1, 1}),
                       {"rank 1", "output[0] = chunk 0 from ranks 0, 1, with the output map", "from all ranks"}));
}

TEST(Verifier, FindsAContributionThatCountsTwice) {
  Lists lists = one_shot(2);
  lists[0] = {first(send(in(0), 1)), first(reduce(in(0), 1, temp(0))), first(send(in(0), 1)),
              last(reduce(temp(0), 1, out(0)))};
  lists[1] = {first(send(in(0), 0)), recv(0, temp(0)), first(send(in(0), 0)), last(first(reduce(in(0), 0, out(0))))};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, {1, 1, 1}),
                       {"rank 0, step 3", "combines a contribution with itself", "all ranks and chunk 0 from rank 1"}));
}

TEST(Verifier, FindsOutputThatNobodyWrites) {
  Lists lists = one_shot(2);
  lists[1].back().destination_space = Space::kScratch;
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, {1, 1, 1}),
                       {"rank 1: it ends with output[0] = nothing; expected chunk 0 from all ranks"}));
}

TEST(Verifier, FindsInputAndOutputMapsThatAreMissingOrApplyTwice) {
  Lists lists = one_shot(2);
  lists[0][1].last = 0;
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists), {"rank 0", "expected", "with the output map"}));

  lists = one_shot(2);
  lists[0][0].first = 0;
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists),
                       {"rank 1, step 1", "before the input map (first)", "from rank 0, without the input map"}));

  lists = one_shot(2);
  lists[1].push_back(last(copy(out(0), out(0))));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists), {"rank 1, step 2", "(last) again"}));

  lists = one_shot(2);
  lists[1] = {first(send(in(0), 0)), recv(0, temp(0)), first(copy(temp(0), temp(0)))};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, {1, 1, 1}),
                       {"rank 1, step 2", "something else than this rank's own input"}));
}

TEST(Verifier, FindsSumsAfterTheOutputMap) {
  Lists lists = {{last(first(send(in(0), 1))), recv(1, out(0))}, {last(first(reduce_send(in(0), 0, out(0), 0)))}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists), {"rank 1, step 0", "after the output map (last)"}));
}

TEST(Verifier, FindsRanksThatEndWithDifferentBits) {
  // Each of three ranks adds its own contribution first.
  Lists lists(3);
  for (int rank = 0; rank < 3; ++rank) {
    const int next = (rank + 1) % 3;
    const int before = (rank + 2) % 3;
    lists[rank] = {first(send(in(0), kEveryone)), first(reduce(in(0), next, temp(0))),
                   last(reduce(temp(0), before, out(0)))};
  }
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, {1, 1, 1}),
                       {"different bits", "chunk 0 is last((0+1)+2) here, last(1+(0+2)) on rank 2"}));
}

TEST(Verifier, TellsOnePassFromTwoBecauseTheyRoundDifferently) {
  Lists lists = one_shot(3);
  lists[1] = {first(send(in(0), kEveryone)), first(reduce(in(0), 0, temp(0))), last(reduce(temp(0), 2, out(0)))};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, {1, 1, 1}),
                       {"different bits", "last(0+1+2)", "last((0+1)+2)"}));
}

TEST(Verifier, RefusesAFalseClaimToBeReproducible) {
  EXPECT_TRUE(is_right(verify_tiny(Collective::kAllReduce, ring(2), ring_chunking(2), true)));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, ring(4), ring_chunking(4), true),
                       {"claims to be reproducible", "combines chunk"}));
}

TEST(Verifier, ChecksThatABarrierKeepsEveryoneIn) {
  const auto signal = [](int to) { return make(StepKind::kSend, {}, kNobody, {}, to, 0); };
  const auto await = [](int from) { return make(StepKind::kRecv, {}, from, {}, kNobody, 0); };
  EXPECT_TRUE(is_right(verify_tiny(Collective::kBarrier, {{await(1), signal(1)}, {signal(0), await(0)}})));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBarrier, {{await(1)}, {signal(0)}}),
                       {"rank 1", "leaves the barrier", "rank 0 has entered"}));
  // Nobody says anything, or only before it has entered this one.
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBarrier, {{}, {}}), {"leaves the barrier"}));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBarrier, {{signal(1)}, {await(0)}}), {"rank 0", "leaves the barrier"}));
  // Through a third rank.
  EXPECT_TRUE(is_right(
      verify_tiny(Collective::kBarrier,
                  {{signal(1), await(2)}, {await(0), signal(2), await(2)}, {await(1), signal(0), signal(1)}})));
  EXPECT_TRUE(
      is_wrong(verify_tiny(Collective::kBarrier,
                           {{signal(1), await(2)}, {signal(2), await(0), await(2)}, {signal(0), signal(1), await(1)}}),
               {"leaves the barrier"}));
}

TEST(Verifier, FindsRanksThatSendOtherValuesInPlace) {
  // The second message is of no use, but in place it holds what arrived before.
  const Lists lists = {{send(in(1), 1), recv(1, out(1)), send(in(1), 1), copy(in(0), out(0))},
                       {send(in(0), 0), recv(0, out(0)), recv(0, temp(0)), copy(in(1), out(1))}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllToAll, lists, {1, 1, 1}),
                       {"rank 0 sends other values when it is called in place"}));
}

TEST(Verifier, FindsInPlaceCallsThatOverwriteWhatIsStillNeeded) {
  // Block 1 arrives over the block that rank 0 has yet to send.
  const Lists lists = {{recv(1, out(1)), send(in(1), 1), copy(in(0), out(0))},
                       {send(in(0), 0), recv(0, out(0)), copy(in(1), out(1))}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllToAll, lists),
                       {"in place: ", "rank 1", "output[0] = chunk 0 of the block from rank 1 to rank 0",
                        "expected chunk 0 of the block from rank 0 to rank 1"}));
}

TEST(Verifier, KnowsTheInputsAndOutputsOfRootedCollectives) {
  EXPECT_TRUE(is_right(
      verify_tiny(Collective::kBroadcast, {{recv(1, out(0))}, {send(in(0), 0), copy(in(0), out(0))}}, {}, false, 1)));
  EXPECT_TRUE(is_wrong(
      verify_tiny(Collective::kBroadcast, {{send(in(0), 1), copy(in(0), out(0))}, {recv(0, out(0))}}, {}, false, 1),
      {"rank 0, step 0 (send input[0] to rank 1)", "out of bounds"}));
  EXPECT_TRUE(is_right(verify_tiny(Collective::kGather, {{copy(in(0), out(0)), recv(1, out(1))}, {send(in(0), 0)}})));
  EXPECT_TRUE(is_right(verify_tiny(Collective::kScatter, {{send(in(1), 1), copy(in(0), out(0))}, {recv(0, out(0))}})));
  EXPECT_TRUE(
      is_right(verify_tiny(Collective::kReduce, {{last(first(reduce(in(0), 1, out(0))))}, {first(send(in(0), 0))}})));
}

TEST(Expressions, PrintTheReproducibleTree) {
  ExpressionText texts;
  std::vector<std::uint64_t> leaves;
  for (int rank = 0; rank < 7; ++rank) {
    texts.note_leaf(rank);
    leaves.push_back(leaf_expression(rank));
  }
  texts.note_tree(leaves, true);
  EXPECT_EQ(texts.text(reproducible_expression(7)), "last(((0+1)+(2+3))+((4+5)+6))");
}

TEST(Expressions, DependOnTheOrderOfTheOperands) {
  const std::uint64_t a[] = {leaf_expression(0), leaf_expression(1)};
  const std::uint64_t b[] = {leaf_expression(1), leaf_expression(0)};
  EXPECT_NE(pass_expression(a, false), pass_expression(b, false));
  EXPECT_NE(pass_expression(a, false), pass_expression(a, true));
}

}  // namespace
}  // namespace tutti
