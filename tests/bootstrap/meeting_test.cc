#include "meeting.h"

namespace tutti {
namespace {

std::vector<std::byte> some_bytes(int rank) {
  return std::vector<std::byte>(static_cast<std::size_t>(rank * 7 % 40), static_cast<std::byte>(rank));
}

class Sizes : public testing::TestWithParam<int> {};

TEST_P(Sizes, MeetAndExchange) {
  const int ranks = GetParam();
  TestRanks made = meet_all(ranks);
  expect_all_met(made);
  in_threads(ranks, [&](int rank) {
    for (int round = 0; round < 3; ++round) {
      const auto all = made[rank]->plane->all_gather(some_bytes(rank + round), Clock::now() + std::chrono::seconds(20));
      ASSERT_EQ(all.size(), ranks);
      for (int r = 0; r < ranks; ++r) EXPECT_EQ(all[r], some_bytes(r + round));
    }
  });
  leave_all(made);
  for (const auto& rank : made) EXPECT_FALSE(rank->health.failed()) << rank->health.reason().what();
}

INSTANTIATE_TEST_SUITE_P(Meeting, Sizes, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 21, 22, 33));

}  // namespace
}  // namespace tutti
