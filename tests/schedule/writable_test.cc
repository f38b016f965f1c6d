// Sends whose value is written into the receiver's memory instead of into a slot.
#include <gtest/gtest.h>

#include "collectives/registry.h"
#include "tiny_schedules.h"
#include "verdicts.h"

namespace tutti {
namespace {

// Each of two ranks combines its half and gives it to the other.
Lists halves() {
  Lists lists(2);
  for (int rank = 0; rank < 2; ++rank) {
    const int peer = 1 - rank;
    lists[rank] = {readable(first(send(in(peer), peer)), kReadableAlways),
                   writable(last(first(reduce_send(in(rank), peer, out(rank), peer))), kWritableAlways),
                   recv(peer, out(peer))};
  }
  return lists;
}
const Chunking kHalves{2, 1, 2, 2};

TEST(Writable, AllowsWhatTheReceiversOwnMessageOrders) {
  const Verdict verdict = verify_tiny(Collective::kAllReduce, halves(), kHalves);
  EXPECT_TRUE(is_right(verdict));
  EXPECT_EQ(verdict.claimed_writes, 4u);
  EXPECT_EQ(verdict.claimable_writes, 0u);
}

TEST(Writable, TwoShotAllReduceIsWritable) {
  const Algorithm* two_shot = find_algorithm(Collective::kAllReduce, "two_shot");
  for (const int ranks : {2, 3, 7}) {
    const Verdict verdict = verify(*two_shot, Placement(ranks), 0);
    EXPECT_TRUE(is_right(verdict));
    EXPECT_EQ(verdict.claimed_writes, 2u * static_cast<std::size_t>(ranks));
  }
}

TEST(Writable, SaysWhatCouldBeClaimed) {
  Lists lists = halves();
  lists[1][1].writable = kWritableOutOfPlace;
  const Verdict verdict = verify_tiny(Collective::kAllReduce, lists, kHalves);
  EXPECT_TRUE(is_right(verdict));
  EXPECT_EQ(verdict.claimed_writes, 3u);
  EXPECT_EQ(verdict.claimable_writes, 1u);
}

TEST(Writable, RefusesToOverwriteWhatTheReceiverStillReads) {
  // In place, rank 1 looks once more at the half that it has already sent.
  Lists lists = halves();
  lists[1].insert(lists[1].begin() + 1, copy(in(0), temp(0)));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, kHalves),
                       {"rank 0, step 1 (reduce-send", "it claims to be writable in place",
                        "rank 1 uses that chunk of rank 1's memory at step 1", "nothing orders the writing after"}));
  lists[0][1].writable = kWritableOutOfPlace;
  EXPECT_TRUE(is_right(verify_tiny(Collective::kAllReduce, lists, kHalves)));
  // Before it has sent it is early enough.
  lists = halves();
  lists[1].insert(lists[1].begin(), copy(in(0), temp(0)));
  EXPECT_TRUE(is_right(verify_tiny(Collective::kAllReduce, lists, kHalves)));
}

TEST(Writable, RefusesToOverwriteWhatTheReceiverStoresLater) {
  Lists lists = halves();
  lists[1].insert(lists[1].begin() + 1, copy(in(0), out(0)));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, kHalves),
                       {"rank 0, step 1 (reduce-send", "it claims to be writable out of place", "rank 1 uses that"}));
}

TEST(Writable, RefusesWhatTheReceiverStoresElsewhere) {
  Lists lists = halves();
  lists[1][2] = recv(0, temp(0));
  lists[1].push_back(copy(temp(0), out(0)));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, kHalves),
                       {"rank 0, step 1 (reduce-send", "rank 1 does not store the message at that chunk", "step 2"}));
}

TEST(Writable, RefusesToOverwriteWhatAThirdRankReadsInPlace) {
  // Rank 0 combines everything. Rank 1 gives its input to rank 2 as well, which reads it where it lies and says so to
  // rank 1, not to rank 0.
  const auto told = make(StepKind::kSend, {}, kNobody, {}, 1, 0);
  const auto hear = make(StepKind::kRecv, {}, 2, {}, kNobody, 0);
  const Lists lists = {
      {writable(last(first(reduce_send(in(0), kEveryone, out(0), kEveryone))), kWritableAlways)},
      {readable(first(send(in(0), kEveryone)), kReadableAlways), hear, recv(0, out(0))},
      {first(send(in(0), 0)), recv(1, temp(0)), told, recv(0, out(0))},
  };
  const Chunking chunking{1, 1, 1, 2};
  EXPECT_TRUE(is_wrong(
      verify_tiny(Collective::kAllReduce, lists, chunking),
      {"rank 0, step 0 (reduce-send", "it claims to be writable in place", "rank 2 uses that chunk of rank 1's"}));
  // What travels in a slot is not in that memory any more.
  Lists copied = lists;
  copied[1][0].readable = kReadableOutOfPlace;
  EXPECT_TRUE(is_right(verify_tiny(Collective::kAllReduce, copied, chunking)));
}

// A root gives its two chunks to another rank, the second where it belongs.
Lists pair() {
  Step given = writable(send(in(1), 1), kWritableAlways);
  given.destination = 1;
  return {{send(in(0), 1), given, copy(in(0), out(0), 2)}, {recv(0, out(0)), recv(0, out(1))}};
}
const Chunking kPair{2, 1, 1, 2};

TEST(Writable, AllowsWhatTheReceiverHasNotUsedThoughItSendsNothing) {
  const Verdict verdict = verify_tiny(Collective::kBroadcast, pair(), kPair);
  EXPECT_TRUE(is_right(verdict));
  EXPECT_EQ(verdict.claimed_writes, 2u);
}

TEST(Writable, RefusesASendThatTheReceiverStoresElsewhere) {
  Lists lists = pair();
  lists[0][1].destination = 0;
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, lists, kPair),
                       {"rank 0, step 1 (send", "rank 1 does not store the message at that chunk", "step 1"}));
}

TEST(Writable, RefusesASendToAPlaceThatTheReceiverHasUsed) {
  // The same chunk comes twice, and nothing tells the root when the first has been stored.
  Lists lists = pair();
  lists[0].insert(lists[0].begin() + 1, send(in(1), 1));
  lists[1].insert(lists[1].begin() + 1, recv(0, out(1)));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kBroadcast, lists, kPair),
                       {"rank 0, step 2 (send", "rank 1 uses that chunk of rank 1's memory at step 1"}));
  lists[0].insert(lists[0].begin() + 2, make(StepKind::kRecv, {}, 1, {}, kNobody, 0));
  lists[1].insert(lists[1].begin() + 2, make(StepKind::kSend, {}, kNobody, {}, 0, 0));
  EXPECT_TRUE(is_right(verify_tiny(Collective::kBroadcast, lists, kPair)));
}

TEST(Writable, RefusesClaimsWithoutAPlace) {
  Lists lists = halves();
  lists[0][0].writable = kWritableAlways;
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllReduce, lists, kHalves),
                       {"rank 0, step 0", "claims to be writable, but does not send what it stores"}));
}

}  // namespace
}  // namespace tutti
