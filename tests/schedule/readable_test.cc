// Sends whose value is read in the sender's memory instead of from a slot.
#include <gtest/gtest.h>

#include "tiny_schedules.h"
#include "verdicts.h"

namespace tutti {
namespace {

TEST(Readable, RefusesRecursiveDoublingInPlace) {
  // Two ranks contribute 1 and 10 and read each other's input while it becomes the result: 11, 12 or 21.
  Lists lists(2);
  for (int rank = 0; rank < 2; ++rank) {
    lists[rank] = {readable(first(send(in(0), 1 - rank)), kReadableAlways),
                   last(first(reduce(in(0), 1 - rank, out(0))))};
  }
  EXPECT_TRUE(is_wrong(
      verify_tiny(Collective::kAllReduce, lists),
      {"rank 1, step 0 (send input[0] to rank 0, first): it claims to be readable in place",
       "rank 1 overwrites the value at step 1", "rank 0's reading at step 1", "rank 0 gets 12 instead of 11"}));
  for (std::vector<Step>& list : lists) list[0].readable = kReadableOutOfPlace;
  const Verdict verdict = verify_tiny(Collective::kAllReduce, lists);
  EXPECT_TRUE(is_right(verdict));
  EXPECT_EQ(verdict.claimed_reads, 2u);
  EXPECT_EQ(verdict.claimable_reads, 0u);
}

TEST(Readable, AllowsWhatAMessageOrders) {
  // Rank 1 answers after it has read, and only then is the value overwritten.
  const auto answer = make(StepKind::kSend, {}, kNobody, {}, 0, 0);
  const auto await = make(StepKind::kRecv, {}, 1, {}, kNobody, 0);
  const Lists ordered = {{copy(in(0), temp(0)), readable(send(temp(0), 1), kReadableAlways), await,
                          copy(in(0), temp(0)), copy(in(0), out(0))},
                         {recv(0, out(0)), answer}};
  EXPECT_TRUE(is_right(verify_tiny(Collective::kBroadcast, ordered, {1, 1, 1})));
  const Lists early = {{copy(in(0), temp(0)), readable(send(temp(0), 1), kReadableAlways), await, copy(in(0), temp(0)),
                        copy(in(0), out(0))},
                       {answer, recv(0, out(0))}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, early, {1, 1, 1}),
                       {"rank 0, step 1", "out of place", "overwrites the value at step 3"}));
}

TEST(Readable, CreditsOrderNothing) {
  // With one line to rank 1, the second send waits until the first was read; a wider window would not.
  const Lists lists = {{copy(in(0), temp(0)), readable(send(temp(0), 1), kReadableAlways), send(in(0), 1),
                        copy(in(0), temp(0)), copy(in(0), out(0))},
                       {recv(0, out(0)), recv(0, out(0))}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, lists, {1, 1, 2, 1}), {"rank 0, step 1", "overwrites"}));
}

TEST(Readable, ScratchMustNotBeOverwrittenByTheNextRound) {
  const Lists lists = {{copy(in(0), temp(0)), readable(send(temp(0), 1), kReadableAlways), copy(in(0), out(0))},
                       {recv(0, out(0))}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, lists, {1, 1, 1}),
                       {"rank 0, step 1", "overwrites the value at step 0"}));
}

TEST(Readable, TheNextRoundTouchesOtherElementsOfTheUsersBuffers) {
  const Lists lists = {{copy(in(0), out(0)), readable(send(out(0), 1), kReadableAlways)}, {recv(0, out(0))}};
  const Verdict verdict = verify_tiny(Collective::kBroadcast, lists);
  EXPECT_TRUE(is_right(verdict));
  EXPECT_EQ(verdict.claimed_reads, 2u);
}

TEST(Readable, RefusesValuesThatLieNowhere) {
  Lists lists = ring(3);
  lists[0][1].readable = kReadableOutOfPlace;
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, ring_chunking(3)),
                       {"rank 0, step 1 (reduce-send", "its value is stored nowhere"}));
  Lists silent = one_shot(2);
  silent[0][1].readable = kReadableAlways;
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, silent), {"readable but sends nothing"}));
}

TEST(Readable, SaysWhichClaimsWouldBeLegal) {
  Lists lists = ring(3);
  const Placement placement(3);
  const Algorithm algorithm = Tiny<>::algorithm(Collective::kAllReduce, lists, ring_chunking(3));
  const std::vector<std::vector<Readable>> legal = legal_reads(algorithm, placement, 0);
  // The first send reads the input, whose chunk comes back as a result only after everyone has added to it; a partial
  // sum is stored nowhere; results lie in the output and stay.
  EXPECT_EQ(legal[0],
            std::vector<Readable>({kReadableAlways, kReadableNever, kReadableAlways, kReadableAlways, kReadableNever}));
  const Verdict unclaimed = verify(algorithm, placement, 0);
  EXPECT_EQ(unclaimed.claimable_reads, 2u * 3 * 3);
  EXPECT_EQ(unclaimed.claimable_example, "rank 0, step 0 (send input[0] to rank 1, first) out of place");
  for (std::vector<Step>& list : lists) {
    for (const int index : {0, 2, 3}) list[index].readable = kReadableAlways;
  }
  const Verdict claimed = verify_tiny(Collective::kAllReduce, lists, ring_chunking(3));
  EXPECT_TRUE(is_right(claimed));
  EXPECT_EQ(claimed.claimed_reads, 2u * 3 * 3);
  EXPECT_EQ(claimed.claimable_reads, 0u);
}

}  // namespace
}  // namespace tutti
