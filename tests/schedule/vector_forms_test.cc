// Blocks of different sizes: what a schedule must keep to so that both ends know each message's length, and what is
// left of it when blocks end early.
#include <gtest/gtest.h>

#include "collectives/registry.h"
#include "tiny_schedules.h"
#include "verdicts.h"

namespace tutti {
namespace {

// Each rank gives its block to the other.
Lists exchange() {
  return {{send(in(0), 1), copy(in(0), out(0)), recv(1, out(1))},
          {send(in(0), 0), copy(in(0), out(1)), recv(0, out(0))}};
}

TEST(VectorForms, TakeStepsOfOneBlock) {
  EXPECT_TRUE(is_right(verify_tiny(Collective::kAllGatherV, exchange())));
  Lists lists = exchange();
  lists[0] = {send(in(0), 1), copy(in(0), out(0)), recv(1, temp(0)), copy(temp(0), out(1))};
  EXPECT_TRUE(is_right(verify_tiny(Collective::kAllGather, lists, {1, 1, 1})));
  EXPECT_TRUE(
      is_wrong(verify_tiny(Collective::kAllGatherV, lists, {1, 1, 1}), {"rank 0, step 2", "must be one block"}));
}

TEST(VectorForms, RefuseChunksAndPartsOfMessages) {
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kReduceScatterV, ring(2), ring_chunking(2)), {"have one chunk each"}));
  Lists lists = {{send(in(0), 1, 2), copy(in(0), out(0)), recv(1, out(1))},
                 {send(in(0), 0, 2), copy(in(1), out(1)), part(shaped(recv(0, out(0)), 1), 1)}};
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllToAllV, lists, {1, 0, 2}), {"must be one block"}));
}

// The length of the message would be taken from the wrong block.
TEST(VectorForms, RefuseAValueThatLiesWhereAnotherBlockBelongs) {
  const Lists lists = {
      {send(in(0), kEveryone), recv(1, out(2)), copy(out(2), out(1)), copy(in(0), out(0)), recv(2, out(2))},
      {send(in(0), kEveryone), copy(in(0), out(1)), recv(0, out(0)), recv(2, out(2))},
      {send(in(0), kEveryone), copy(in(0), out(2)), recv(0, out(0)), recv(1, out(1))}};
  EXPECT_TRUE(is_right(verify_tiny(Collective::kAllGather, lists)));
  EXPECT_TRUE(
      is_wrong(verify_tiny(Collective::kAllGatherV, lists),
               {"rank 0, step 1", "chunk 0 of block 1", "destination is chunk 0 of block 2", "another length"}));
}

// Rank 0 overwrites what it has sent, after a message that tells that it was read. Where the block of that message has
// ended, there is no such message.
TEST(VectorForms, MustNotLetAReadRestOnAMessageThatMayBeLeftOut) {
  const Lists lists = {
      {copy(in(0), out(0)), readable(send(out(0), 1), kReadableOutOfPlace), recv(1, out(1)), copy(in(0), out(0))},
      {recv(0, out(0)), copy(in(0), out(1)), send(in(0), 0)}};
  EXPECT_TRUE(is_right(verify_tiny(Collective::kAllGather, lists)));
  EXPECT_TRUE(is_wrong(verify_tiny(Collective::kAllGatherV, lists),
                       {"some blocks end early", "rank 0, step 1", "claims to be readable", "overwrites"}));
}

TEST(VectorForms, HaveTheStepsOfTheirEvenForms) {
  int forms = 0;
  for (const Algorithm& row : algorithms()) {
    if (!is_vector(row.collective)) continue;
    const Algorithm* even = find_algorithm(even_form(row.collective), row.name);
    ASSERT_NE(even, nullptr) << row.name;
    EXPECT_EQ(row.step, even->step);
    EXPECT_EQ(row.chunking, even->chunking);
    EXPECT_EQ(row.reproducible, even->reproducible);
    ++forms;
  }
  EXPECT_EQ(forms, 6);
}

}  // namespace
}  // namespace tutti
