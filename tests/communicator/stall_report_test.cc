#include "communicator/stall_report.h"

#include <gtest/gtest.h>

#include "communicator/activities.h"

namespace tutti {
namespace {

using Kind = Activity::Kind;

Activity in(const std::string& text, std::uint64_t called, int waits_for = Activity::kNobody,
            std::uint32_t since_ms = 10'000) {
  const Kind kind = text.starts_with("send")   ? Kind::kSend
                    : text.starts_with("recv") ? Kind::kReceive
                                               : Kind::kCollective;
  return {kind, true, called, waits_for, since_ms, text};
}
Activity idle(std::uint64_t called, std::uint32_t since_ms = Activity::kUnknownTime) {
  return {Kind::kIdle, true, called, Activity::kNobody, since_ms, ""};
}

RankSet ranks(std::initializer_list<int> list) {
  RankSet set;
  for (const int rank : list) set.add(rank);
  return set;
}

StallReport explain(const Survey& survey, int ranks, int rank = 0) {
  return explain_stall({rank, ranks, survey, [](int r) { return "rank " + std::to_string(r) + " (host pid 7)"; }});
}

TEST(StallReport, NamesARankThatHasNotCome) {
  Survey survey;
  survey.findings.add(in("all_reduce f32×1000 sum #1234", 1234, 5), ranks({0, 1, 2, 3, 4, 6, 7}));
  survey.findings.add(idle(1233, 12'300), ranks({5}));
  const StallReport report = explain(survey, 8);
  EXPECT_EQ(report.text, "rank 5 (host pid 7) has made no call since #1233, for 12 s; ranks 0-4,6,7 wait for 10 s");
  EXPECT_EQ(report.blamed, 5);
}

TEST(StallReport, NamesOneThatHasMadeNoCallAtAll) {
  Survey survey;
  survey.findings.add(in("barrier #1", 1), ranks({0}));
  survey.findings.add(idle(0), ranks({1}));
  EXPECT_EQ(explain(survey, 2).text, "rank 1 (host pid 7) has made no call yet; rank 0 waits for 10 s");
}

TEST(StallReport, SaysWhatTheProcessIsInOnAnotherCommunicator) {
  Survey survey;
  survey.findings.add(in("barrier #1", 1), ranks({0}));
  Activity late = idle(0);
  late.elsewhere = "barrier #7 of \"world\" and waits for rank 0 there";
  survey.findings.add(late, ranks({1}));
  EXPECT_EQ(explain(survey, 2).text,
            "rank 1 (host pid 7) has made no call yet: its process is in barrier #7 of \"world\" and waits for rank 0 "
            "there; rank 0 waits for 10 s");
  late = in("barrier #1", 0);
  late.begun = false;
  late.elsewhere = "barrier #7 of \"world\"";
  survey.findings.findings.pop_back();
  survey.findings.add(late, ranks({1}));
  EXPECT_NE(explain(survey, 2).text.find("has issued barrier #1, which waits behind another call of its thread or "
                                         "stream: its process is in barrier #7 of \"world\""),
            std::string::npos)
      << explain(survey, 2).text;
}

TEST(StallReport, NamesARankInAnotherCall) {
  Survey survey;
  survey.findings.add(in("all_reduce f32×1000 sum #1234", 1234, 5), ranks({0, 1, 2, 3, 4, 6, 7}));
  survey.findings.add(in("broadcast f32×8 root 0 #1231", 1231, 0, 12'000), ranks({5}));
  const StallReport report = explain(survey, 8);
  EXPECT_EQ(report.text,
            "rank 5 (host pid 7) is in broadcast f32×8 root 0 #1231, for 12 s and waits for rank 0; "
            "ranks 0-4,6,7 wait for 10 s");
  EXPECT_EQ(report.blamed, 5);
}

TEST(StallReport, NamesSeveralThatAreBehind) {
  Survey survey;
  survey.findings.add(in("barrier #9", 9), ranks({0, 1}));
  survey.findings.add(idle(8), ranks({2, 3}));
  survey.findings.add(idle(7), ranks({4, 5, 6, 7, 9}));
  const StallReport report = explain(survey, 10);
  EXPECT_EQ(
      report.text,
      "rank 2 (host pid 7), rank 3 (host pid 7) have made no call since #8; ranks 4-7,9 have made no call since #7; "
      "ranks 0,1 wait for 10 s");
  EXPECT_EQ(report.blamed, -1);
}

TEST(StallReport, FollowsTheWaitsToTheRankThatWaitsForNobody) {
  Survey survey;
  survey.findings.add(in("barrier #9", 9), ranks({0, 1}));
  survey.findings.add(in("recv f32×8 from 3 tag 7", 8, 3), ranks({2}));
  survey.findings.add(idle(9), ranks({3}));
  const StallReport report = explain(survey, 4);
  EXPECT_EQ(report.text,
            "rank 3 (host pid 7) has made no call since #9; ranks 0,1 wait for 10 s; "
            "rank 2 waits for rank 3 in recv f32×8 from 3 tag 7, for 10 s");
  EXPECT_EQ(report.blamed, 3);
}

TEST(StallReport, OfAReceiveNamesTheSenderAndWhatItDoes) {
  Survey survey;
  survey.findings.add(in("recv f32×8 from 2 tag 7", 3, 2), ranks({0}));
  survey.findings.add(idle(3), ranks({1, 2}));
  const StallReport report = explain(survey, 3);
  EXPECT_EQ(report.text, "rank 2 (host pid 7) has made no call since #3; rank 0 waits for rank 2, for 10 s");
  EXPECT_EQ(report.blamed, 2);
}

TEST(StallReport, BlamesWhoIsBehindWhenASendMeetsACollective) {
  Survey survey;
  survey.findings.add(in("all_reduce f32×1 sum #4", 4), ranks({0, 2}));
  survey.findings.add(in("send f32×8 to 0 tag 7", 3, 0), ranks({1}));
  const StallReport report = explain(survey, 3);
  EXPECT_EQ(report.text,
            "rank 1 (host pid 7) is in send f32×8 to 0 tag 7, after #3, for 10 s and waits for rank 0; "
            "ranks 0,2 wait for 10 s");
  EXPECT_EQ(report.blamed, 1);
}

TEST(StallReport, SaysWhoWaitsForWhomInACircle) {
  Survey survey;
  survey.findings.add(in("recv u8×1 from 1 tag 0", 3, 1), ranks({0}));
  survey.findings.add(in("recv u8×1 from 0 tag 0", 3, 0), ranks({1}));
  const StallReport report = explain(survey, 2);
  EXPECT_EQ(
      report.text,
      "every rank in it waits for another one in a circle; rank 0 (host pid 7) is in recv u8×1 from 1 tag 0, after "
      "#3, for 10 s and waits for rank 1; rank 1 (host pid 7) is in recv u8×1 from 0 tag 0, after #3, for 10 s and "
      "waits for rank 0");
  EXPECT_EQ(report.blamed, -1);
}

TEST(StallReport, InTheSameCallBlamesTheRankThatWaitsForNobody) {
  Survey survey;
  survey.findings.add(in("barrier #9", 9, 1), ranks({0}));
  survey.findings.add(in("barrier #9", 9, 2), ranks({1}));
  survey.findings.add(in("barrier #9", 9, Activity::kNobody, 3'000), ranks({2}));
  const StallReport report = explain(survey, 3);
  EXPECT_EQ(report.blamed, 2);
  EXPECT_TRUE(report.text.starts_with("rank 2 (host pid 7) is in barrier #9, for 3.0 s; ")) << report.text;
}

TEST(StallReport, NamesACallThatWasIssuedAndHasNotBegun) {
  Survey survey;
  survey.findings.add(in("barrier #9", 9), ranks({0}));
  Activity queued = in("barrier #9", 8);
  queued.begun = false;
  survey.findings.add(queued, ranks({1}));
  const StallReport report = explain(survey, 2);
  EXPECT_EQ(report.text,
            "rank 1 (host pid 7) has issued barrier #9, which waits behind another call of its thread or stream; "
            "rank 0 waits for 10 s");
  EXPECT_EQ(report.blamed, 1);
}

TEST(StallReport, NamesARankThatDoesNotAnswerAndWhoIsBehindIt) {
  Survey survey;
  survey.findings.add(in("barrier #9", 9), ranks({1, 2}));
  survey.silent.push_back({0, "rank 0 (host pid 7)", "rank 1 (host pid 7)"});
  survey.unknown = ranks({3, 4});
  const StallReport report = explain(survey, 5, 1);
  EXPECT_EQ(report.text,
            "rank 0 (host pid 7) does not answer rank 1 (host pid 7): it is stopped, or its host hangs; "
            "nothing is known of ranks 3,4, which are reached through it; ranks 1,2 wait for 10 s");
  EXPECT_EQ(report.blamed, 0);
}

TEST(StallReport, IsBounded) {
  Survey survey;
  for (int rank = 0; rank < 200; ++rank) {
    survey.findings.add(in("recv u8×1 from " + std::to_string(rank) + " tag 0", 3, (rank + 1) % 200), ranks({rank}));
  }
  EXPECT_LT(explain(survey, 200).text.size(), 700u);
}

TEST(StallReport, OfNothingIsNoCrash) {
  EXPECT_EQ(explain(Survey{}, 3).blamed, 0);
  Survey shortened;
  shortened.findings.add(in("", 4, Activity::kSeveral), ranks({0, 1, 2}));
  EXPECT_FALSE(explain(shortened, 3).text.empty());
}

OperationRecord record(OperationRecord::Kind kind, Phase phase, std::uint64_t number) {
  OperationRecord record;
  record.kind = kind;
  record.phase = phase;
  record.number = number;
  record.shape = {Collective::kAllReduce, DataType::kF32, ReduceOp::Kind::kSum, 0, 1000};
  record.issued = std::chrono::seconds(100);
  return record;
}

constexpr std::chrono::nanoseconds kNow = std::chrono::seconds(112);

TEST(Activities, AreTheCollectiveUnderWayAndTheLongestTransfers) {
  std::vector<OperationRecord> records = {record(OperationRecord::Kind::kCollective, Phase::kDone, 6),
                                          record(OperationRecord::Kind::kCollective, Phase::kRunning, 7),
                                          record(OperationRecord::Kind::kCollective, Phase::kQueued, 8)};
  records[1].waited_for = 3;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    records.push_back(record(OperationRecord::Kind::kReceive, Phase::kRunning, i));
    records.back().peer = 2;
    records.back().tag = static_cast<int>(i);
    records.back().issued += std::chrono::seconds(i);
  }
  const auto activities = activities_of(records, kNow);
  ASSERT_EQ(activities.size(), 4u);
  EXPECT_EQ(activities[0].text, "all_reduce f32×1000 sum #7");
  EXPECT_EQ(activities[0].called, 7u);
  EXPECT_EQ(activities[0].waits_for, 3);
  EXPECT_EQ(activities[0].since_ms, 12'000u);
  EXPECT_EQ(activities[1].text, "recv f32×1000 from 2 tag 1");
  EXPECT_EQ(activities[1].waits_for, 2);
}

TEST(Activities, OfAQueueThatNothingMovesAreItsFirstCall) {
  const std::vector<OperationRecord> records = {record(OperationRecord::Kind::kCollective, Phase::kQueued, 9),
                                                record(OperationRecord::Kind::kCollective, Phase::kQueued, 8),
                                                record(OperationRecord::Kind::kCollective, Phase::kDone, 7)};
  const auto activities = activities_of(records, kNow);
  ASSERT_EQ(activities.size(), 1u);
  EXPECT_EQ(activities[0].text, "all_reduce f32×1000 sum #8");
  EXPECT_FALSE(activities[0].begun);
  EXPECT_EQ(activities[0].called, 7u);
}

TEST(Activities, OfARankInNoCallTellTheLastOne) {
  std::vector<OperationRecord> records = {record(OperationRecord::Kind::kCollective, Phase::kDone, 7)};
  records[0].ended = std::chrono::seconds(110);
  const auto activities = activities_of(records, kNow);
  ASSERT_EQ(activities.size(), 1u);
  EXPECT_EQ(activities[0].kind, Kind::kIdle);
  EXPECT_EQ(activities[0].called, 7u);
  EXPECT_EQ(activities[0].since_ms, 2'000u);
  EXPECT_EQ(activities_of({}, kNow).front().since_ms, Activity::kUnknownTime);
}

}  // namespace
}  // namespace tutti
