#include "bootstrap/introduction.h"
#include "meeting.h"

namespace tutti {
namespace {

void expect_error(const TestRank& rank, ErrorCode code, const std::vector<std::string>& words) {
  ASSERT_NE(rank.error, nullptr);
  EXPECT_EQ(rank.error->code(), code) << rank.error->what();
  for (const std::string& word : words) {
    EXPECT_NE(std::string(rank.error->what()).find(word), std::string::npos) << word << ": " << rank.error->what();
  }
}

TEST(Mismatch, ASecondRankOfOneNumberIsToldToAll) {
  const TestRanks made = meet_all(4, [](int rank, Membership& membership, Settings&) {
    if (rank == 3) membership.rank = 1;
  });
  for (const auto& rank : made) expect_error(*rank, ErrorCode::kMismatch, {"a second rank 1"});
}

TEST(Mismatch, OfTheNumberOfRanksIsToldToAll) {
  const TestRanks made = meet_all(4, [](int rank, Membership& membership, Settings&) {
    if (rank == 2) membership.ranks = 5;
  });
  for (const auto& rank : made) expect_error(*rank, ErrorCode::kMismatch, {"rank 2", "one of 5", "one of 4"});
}

TEST(Mismatch, OfSettingsThatMustAgreeNamesThem) {
  const TestRanks made = meet_all(4, [](int rank, Membership&, Settings& settings) {
    if (rank == 1) settings["TUTTI_CHUNK_BYTES"] = "65536";
  });
  for (const auto& rank : made) expect_error(*rank, ErrorCode::kMismatch, {"rank 1", "TUTTI_CHUNK_BYTES=65536"});
}

TEST(Mismatch, OfTheSecretKeepsARankOutAndTheOthersWaiting) {
  const std::string place = "127.0.0.1:" + std::to_string(free_port());
  TestRanks made = make_ranks(3);
  in_threads(3, [&](int rank) {
    meet(*made[rank], membership_at(place, rank, 3, rank == 1 ? "another secret" : "hush"),
         {{"TUTTI_MEET_TIMEOUT", "2"}});
  });
  expect_error(*made[1], ErrorCode::kUnauthorized, {"secret"});
  for (const int rank : {0, 2}) expect_error(*made[rank], ErrorCode::kTimeout, {"rank 1", "turned away"});
}

TEST(Mismatch, OfTheJobKeepsARankOutAndTheOthersWaiting) {
  const std::string place = "127.0.0.1:" + std::to_string(free_port());
  TestRanks made = make_ranks(3);
  in_threads(3, [&](int rank) {
    Membership membership = membership_at(place, rank, 3);
    membership.job = rank == 2 ? "job 8" : "job 7";
    meet(*made[rank], membership, {{"TUTTI_MEET_TIMEOUT", "2"}});
  });
  ASSERT_NE(made[2]->error, nullptr);
  EXPECT_NE(std::string(made[2]->error->what()).find("turned away"), std::string::npos) << made[2]->error->what();
  for (const int rank : {0, 1}) expect_error(*made[rank], ErrorCode::kTimeout, {"rank 2", "turned away"});
}

TEST(Mismatch, OfAnInterfaceNameFailsThereAtOnceAndTellsTheOthers) {
  const TestRanks made = meet_all(3, [](int rank, Membership&, Settings& settings) {
    if (rank == 1) settings["TUTTI_SOCKET_IFNAME"] = "nope0";
  });
  expect_error(*made[1], ErrorCode::kInvalidSetting, {"nope0"});
  for (const int rank : {0, 2}) expect_error(*made[rank], ErrorCode::kRemote, {"rank 1", "nope0"});
}

TEST(Mismatch, OfTheVersionIsFoundBeforeAnythingElseIsRead_F81) {
  Introduction introduction;
  introduction.version = kProtocolVersion + 1;
  std::vector<std::byte> bytes = introduction.encode();
  bytes.resize(4);  // whatever follows may look different in that version
  try {
    Introduction::decode(bytes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_NE(std::string(error.what()).find("version " + std::to_string(kProtocolVersion + 1)), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tutti
