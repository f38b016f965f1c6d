// Messages, lines and slots: what a schedule may wait for.
#include <gtest/gtest.h>

#include "collectives/registry.h"
#include "schedule/sequences.h"
#include "tiny_schedules.h"
#include "verdicts.h"

namespace tutti {
namespace {

// all_to_all of two ranks: a message each way, and the own block.
Lists exchange(std::vector<Step> rank0, std::vector<Step> rank1) {
  rank0.push_back(copy(in(0), out(0)));
  rank1.push_back(copy(in(1), out(1)));
  return {std::move(rank0), std::move(rank1)};
}

TEST(Flow, FindsRanksThatReceiveFirst) {
  const Lists lists = exchange({recv(1, out(1)), send(in(1), 1)}, {recv(0, out(0)), send(in(0), 0)});
  EXPECT_TRUE(
      is_wrong(verify_tiny(Collective::kAllToAll, lists),
               {"deadlock: rank 0, step 0 (recv message[0] from rank 1 into output[1]) waits for a message from "
                "rank 1; rank 1, step 0",
                "waits for a message from rank 0"}));
}

TEST(Flow, FindsAMessageThatIsNeverSent) {
  const Lists lists = {{copy(in(0), out(0)), recv(1, out(1))}, {}};
  EXPECT_TRUE(
      is_wrong(verify_tiny(Collective::kGather, lists), {"waits for a message from rank 1", "rank 1 has finished"}));
}

TEST(Flow, FindsAMessageThatIsNeverTaken) {
  const Lists lists = {
      {send(in(0), 1), send(in(0), 2), copy(in(0), out(0))}, {recv(0, out(0)), send(out(0), 2)}, {recv(0, out(0))}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, lists, {1, 0, 9, 8}),
                       {"rank 2 never takes the message that rank 1 sent at step 1"}));
}

TEST(Flow, AMessageLeftOverIsNotTheNextRoundsMessage) {
  const Lists lists = {{send(in(0), 1), copy(in(0), out(0)), send(in(0), 1)}, {recv(0, out(0))}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, lists, {1, 0, 9, 8}),
                       {"rank 1, round 1, step 0", "it uses a value of an earlier round or call"}));
}

TEST(Flow, AllowsOnlyTheWindowThatTheAlgorithmStates) {
  // Rank 0 sends twice before rank 1, which waits for rank 2, takes anything.
  const auto lists = [] {
    return Lists{{send(in(0), 1), send(in(0), 1), send(in(0), 2), copy(in(0), out(0))},
                 {recv(2, temp(0)), recv(0, out(0)), recv(0, out(0))},
                 {recv(0, out(0)), send(out(0), 1)}};
  };
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, lists(), {1, 1, 3, 1}),
                       {"deadlock", "rank 0, step 1", "waits for rank 1 to take an earlier message (step 0)"}));
  EXPECT_TRUE(is_right(verify_tiny(Collective::kBroadcast, lists(), {1, 1, 3, 2})));
}

TEST(Flow, AStepHoldsItsMessagesUntilItCanSend) {
  for (const int ranks : {2, 3, 4}) {
    EXPECT_TRUE(is_right(verify_tiny(Collective::kAllReduce, ring(ranks), {ranks, 0, 2, 2})));
    EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, ring(ranks), {ranks, 0, 2, 1}), {"deadlock"}));
  }
}

TEST(Flow, AllowsOnlyTheSlotsThatTheAlgorithmStates) {
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, ring(3), {3, 0, 1, 2}),
                       {"deadlock", "waits for room for 1 chunks in its slots", "slot_chunks is 1"}));
  // Three messages to three ranks before any of them reads, because all wait for the last.
  const Lists lists = {{send(in(1), 1), send(in(2), 2), send(in(3), 3), copy(in(0), out(0))},
                       {recv(2, temp(0)), recv(0, out(0))},
                       {recv(3, temp(0)), shaped(send(temp(0), 1), 0), recv(0, out(0))},
                       {recv(0, out(0)), send(out(0), 2)}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kScatter, lists, {1, 1, 2}),
                       {"deadlock", "rank 0, step 2", "rank 1 has not read (step 0; slot_chunks is 2)"}));
  EXPECT_TRUE(is_right(verify_tiny(Collective::kScatter, lists, {1, 1, 3})));
}

TEST(Flow, SlotsAreFreedInTheOrderInWhichTheyWereTaken) {
  // Rank 2 reads the second message at once; its slot is free only after rank 1 has read the first.
  const Lists lists = {{send(in(1), 1), send(in(2), 2), send(in(3), 3), copy(in(0), out(0))},
                       {recv(3, temp(0)), recv(0, out(0))},
                       {recv(0, out(0))},
                       {recv(0, out(0)), send(out(0), 1)}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kScatter, lists, {1, 1, 2}), {"rank 1 has not read (step 0"}));
}

TEST(Flow, RefusesAMessageLongerThanTheRing) {
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast,
                                   {{send(in(0), 1, 3), copy(in(0), out(0), 3)}, {recv(0, out(0), 3)}}, {3, 0, 2}),
                       {"rank 0, step 0 (send input[0..2] to rank 1)", "sends 3 chunks, but slot_chunks is 2"}));
}

TEST(Flow, AMessageMayBeReadInParts) {
  const auto lists = [](Step taken) {
    return Lists{{send(in(0), 1, 2), send(in(0), 1, 2), copy(in(0), out(0), 2)}, {recv(0, out(0)), taken}};
  };
  EXPECT_TRUE(is_right(verify_tiny(Collective::kBroadcast, lists(part(recv(0, out(1)), 1)), {2, 0, 4})));
  EXPECT_TRUE(
      is_wrong(verify_tiny(Collective::kBroadcast, lists(recv(0, out(1))), {2, 0, 4}),
               {"rank 1, step 1", "shape is 1, but chunk 0 of the message that rank 0 sent at step 1 has shape 0"}));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, lists(shaped(part(recv(0, out(0)), 2), 2)), {2, 0, 4}),
                       {"takes chunks 2 … 2 of the message that rank 0 sent at step 1, which has 2"}));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, lists(part(recv(0, out(0)), 1)), {2, 0, 4}),
                       {"add the chunks of a block to it"}));
}

TEST(Flow, FindsValuesThatAreNotAsLongAsTheirPlace) {
  EXPECT_TRUE(is_wrong(
      verify_tiny(Collective::kBroadcast,
                  {{send(in(0), 1, 2), copy(in(0), out(1)), copy(in(1), out(0))}, {recv(0, out(0), 2)}}, {2, 0, 4}),
      {"rank 0, step 1 (copy input[0] into output[1])", "output[1] is not as long as shape 0"}));
  const Lists through_scratch = {
      {shaped(copy(in(1), temp(0)), 1), copy(in(0), out(0)), shaped(copy(temp(0), out(0)), 0)}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllGather, through_scratch, {2, 1, 1}),
                       {"its shape is 0, but the value is chunk 1 of block 0"}));
}

TEST(Flow, FindsChunksOutOfBoundsAndUseOfWhatHoldsNothing) {
  EXPECT_TRUE(
      is_wrong(verify_tiny(Collective::kAllGather, {{copy(in(0), out(1))}}), {"output[1] is out of bounds: 1 chunks"}));
  EXPECT_TRUE(
      is_wrong(verify_tiny(Collective::kAllGather, {{copy(in(0), temp(0))}}), {"scratch[0] is out of bounds: 0"}));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllGather, {{copy(temp(0), out(0))}}, {1, 1, 1}),
                       {"reads scratch[0], which holds nothing yet"}));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllGather, {{copy(in(0), in(0))}}), {"writes to the caller's input"}));
}

TEST(Flow, ScratchDoesNotCarryValuesIntoTheNextCall) {
  const Algorithm through =
      Tiny<1>::algorithm(Collective::kBroadcast, {{copy(in(0), temp(0)), copy(temp(0), out(0))}}, {1, 1, 1});
  const Algorithm stale = Tiny<2>::algorithm(Collective::kBroadcast, {{copy(temp(0), out(0))}}, {1, 1, 1});
  const SymbolicCall calls[] = {{&through, 0, false}, {&stale, 0, false}};
  EXPECT_TRUE(is_wrong(verify_sequence(calls, Placement(1)), {"rank 0, call 1, step 0", "an earlier round or call"}));
}

TEST(Flow, RefusesStepsThatTheirKindDoesNotHave) {
  const auto fault = [](Step step) { return verify_tiny(Collective::kAllGather, {{step}, {}}); };
  EXPECT_TRUE(is_wrong(fault(make(StepKind::kCopy, in(0), kNobody, {}, kNobody)), {"it has no destination"}));
  EXPECT_TRUE(is_wrong(fault(make(StepKind::kSend, in(0), kNobody, out(0), 1)), {"its kind has no destination"}));
  EXPECT_TRUE(is_wrong(fault(make(StepKind::kRecv, in(0), 1, out(0), kNobody)), {"its kind has no source"}));
  EXPECT_TRUE(is_wrong(fault(make(StepKind::kForward, {}, kNobody, out(0), 1)), {"no peers to receive from"}));
  EXPECT_TRUE(is_wrong(fault(reduce(in(0), 1, out(0))), {"all_gather has no operation to combine"}));
  EXPECT_TRUE(is_wrong(fault(first(send(in(0), 1))), {"all_gather has no operation whose maps"}));
  EXPECT_TRUE(is_wrong(fault(send(in(0), 0)), {"it talks to itself"}));
  EXPECT_TRUE(is_wrong(fault(send(in(0), 7)), {"there is no rank 7"}));
}

TEST(Flow, RefusesMoreOperandsThanAPassCanTake) {
  EXPECT_TRUE(is_right(verify_tiny(Collective::kAllReduce, one_shot(kMaxOperands))));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, one_shot(kMaxOperands + 1)),
                       {"rank 0, step 1", "combines 1025 operands"}));
}

TEST(Flow, CallsThatAreRightAloneAreRightInAnyOrder) {
  constexpr int kRanks = 4;
  const auto receive_all = [](int rank) {
    std::vector<Step> list = {send(in(0), kEveryone), copy(in(0), out(rank))};
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank) list.push_back(recv(peer, out(peer)));
    }
    return list;
  };
  const Algorithm algorithms[] = {
      Tiny<1>::algorithm(Collective::kAllReduce, ring(kRanks), ring_chunking(kRanks)),
      Tiny<2>::algorithm(Collective::kAllReduce, one_shot(kRanks)),
      Tiny<3>::algorithm(Collective::kAllGather, {receive_all(0), receive_all(1), receive_all(2), receive_all(3)})};
  const Placement placement(kRanks);
  for (const Algorithm& algorithm : algorithms) EXPECT_TRUE(is_right(verify(algorithm, placement, 0)));
  EXPECT_EQ(verify_random_sequences(algorithms, placement, 60, 1), "");
}

TEST(Flow, TheAlgorithmsOfTheRegistryMayFollowEachOther) {
  constexpr std::uint64_t kSeed = 20240229;
  for (int ranks = 2; ranks <= 8; ++ranks) {
    for (const int hosts : {1, 2}) {
      EXPECT_EQ(
          verify_random_sequences(algorithms(), even_placement(ranks, hosts), 40, kSeed + static_cast<unsigned>(ranks)),
          "")
          << ranks << " ranks, " << hosts << " hosts, seed " << kSeed + static_cast<unsigned>(ranks);
    }
  }
}

TEST(Flow, SequencesNameTheCallsThatDisturbEachOther) {
  // The message that the first call leaves behind is found by the second.
  const Algorithm algorithms[] = {
      Tiny<1>::algorithm(Collective::kBroadcast,
                         {{send(in(0), 1), send(in(0), 1), copy(in(0), out(0))}, {recv(0, out(0))}}, {1, 0, 4, 4})};
  const SymbolicCall calls[] = {{&algorithms[0], 0, false}, {&algorithms[0], 0, true}};
  EXPECT_TRUE(is_wrong(verify_sequence(calls, Placement(2)), {"rank 1, call 1", "an earlier round or call"}));
}

}  // namespace
}  // namespace tutti
