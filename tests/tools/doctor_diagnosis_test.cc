#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "doctor/diagnosis.h"
#include "tools/reports.h"

namespace tutti::doctor {
namespace {

using Ranks = std::vector<int>;

Ranks blamed(const Diagnosis& diagnosis) {
  Ranks ranks;
  for (const auto& blame : diagnosis.blame) ranks.insert(ranks.end(), blame.ranks.begin(), blame.ranks.end());
  return ranks;
}

bool says(const Diagnosis& diagnosis, const std::string& part) {
  return to_text(diagnosis).find(part) != std::string::npos;
}

TEST(Doctor, FindsNothingWrongWithRanksThatGoOn) {
  const Diagnosis diagnosis = diagnose({report_of(0, 2, 5), waiting(report_of(1, 2, 7), 0, 0.01)});
  EXPECT_TRUE(diagnosis.healthy()) << to_text(diagnosis);
  EXPECT_TRUE(says(diagnosis, "nothing is wrong"));
}

TEST(Doctor, BlamesTheRankThatDoesNotCome) {
  const Diagnosis diagnosis = diagnose({waiting(report_of(0, 4, 6), 1), waiting(report_of(1, 4, 6), 2),
                                        waiting(report_of(2, 4, 6), 3), report_of(3, 4, 5)});
  EXPECT_EQ(blamed(diagnosis), Ranks{3}) << to_text(diagnosis);
  EXPECT_TRUE(says(diagnosis, "ranks 0-2 → rank 3")) << to_text(diagnosis);
  EXPECT_TRUE(says(diagnosis, "in no call; the last was all_reduce f32×1000 sum #5"));
}

TEST(Doctor, BlamesTheRankWithoutAFile) {
  const Diagnosis diagnosis = diagnose({waiting(report_of(0, 3, 6), 1), waiting(report_of(2, 3, 6), 1)});
  EXPECT_EQ(diagnosis.missing, Ranks{1});
  EXPECT_EQ(blamed(diagnosis), Ranks{1}) << to_text(diagnosis);
  EXPECT_TRUE(says(diagnosis, "rank 1 (node1 pid 101) wrote no file")) << to_text(diagnosis);
}

TEST(Doctor, FollowsAChainOfWaitsToItsEnd) {
  // Rank 0 waits in a collective for rank 1, which waits in a receive for rank 2, which computes.
  const Diagnosis diagnosis =
      diagnose({waiting(report_of(0, 3, 6)), in_transfer(report_of(1, 3, 5), "recv f32×10 from 2 tag 0", 2),
                report_of(2, 3, 6)});
  EXPECT_EQ(blamed(diagnosis), Ranks{2}) << to_text(diagnosis);
}

TEST(Doctor, ShowsTheFirstCallInWhichRanksDiffer) {
  std::vector<Report> reports = {waiting(report_of(0, 3, 9)), waiting(report_of(1, 3, 9)), waiting(report_of(2, 3, 9))};
  for (std::size_t i = 7; i < 9; ++i) reports[1].operations[i].signature = "another " + std::to_string(i);
  reports[1].operations[7].what = "broadcast f32×1000 from 0";
  const Diagnosis diagnosis = diagnose(reports);
  EXPECT_EQ(diagnosis.divergence, 8u);
  ASSERT_EQ(diagnosis.diverging.size(), 2u);
  EXPECT_EQ(diagnosis.diverging[0].ranks, (Ranks{0, 2}));
  EXPECT_EQ(diagnosis.diverging[1].ranks, Ranks{1});
  EXPECT_TRUE(says(diagnosis, "rank 1: broadcast f32×1000 from 0")) << to_text(diagnosis);
  EXPECT_TRUE(says(diagnosis,
                   "rank 1 (node1 pid 101) called broadcast f32×1000 from 0 as #8, and most others "
                   "all_reduce f32×1000 sum"))
      << to_text(diagnosis);
}

TEST(Doctor, NamesRanksThatWaitInACircle) {
  const Diagnosis diagnosis = diagnose({in_transfer(report_of(0, 3, 2), "send f32×9 to 1 tag 0", 1),
                                        in_transfer(report_of(1, 3, 2), "send f32×9 to 2 tag 0", 2),
                                        in_transfer(report_of(2, 3, 2), "send f32×9 to 0 tag 0", 0)});
  EXPECT_EQ(blamed(diagnosis), (Ranks{0, 1, 2}));
  EXPECT_TRUE(says(diagnosis, "in a circle: 0 → 1 → 2 → 0")) << to_text(diagnosis);
}

TEST(Doctor, SaysWhyACommunicatorFailed) {
  std::vector<Report> reports = {report_of(0, 3, 4), report_of(1, 3, 4)};
  for (Report& report : reports) {
    report.failed = true;
    report.failure_code = "remote";
    report.failure_reason = "rank 2 (node1 pid 102) died";
    report.failure_peer = 2;
  }
  const Diagnosis diagnosis = diagnose(reports);
  EXPECT_FALSE(diagnosis.healthy());
  EXPECT_TRUE(says(diagnosis, "ranks 0,1: failed (remote): rank 2 (node1 pid 102) died")) << to_text(diagnosis);
  EXPECT_TRUE(says(diagnosis, "no file of rank 2"));
  EXPECT_EQ(blamed(diagnosis), Ranks{2});
  EXPECT_TRUE(says(diagnosis, "as ranks 0,1 learned")) << to_text(diagnosis);
}

TEST(Doctor, RepeatsWhatWasSaidOfAStall) {
  std::vector<Report> reports = {report_of(0, 3, 4), report_of(1, 3, 4), report_of(2, 3, 4)};
  reports[0].stall = reports[1].stall = "rank 2 (node1 pid 102) does not answer";
  EXPECT_TRUE(says(diagnose(reports), "ranks 0,1: rank 2 (node1 pid 102) does not answer"))
      << to_text(diagnose(reports));
  // Not twice: a call that had a limit failed with it.
  for (Report& report : reports) {
    report.failed = true;
    report.failure_reason = "it has not ended: rank 2 (node1 pid 102) does not answer";
  }
  EXPECT_FALSE(says(diagnose(reports), "stall")) << to_text(diagnose(reports));
}

TEST(Doctor, DoesNotMissARankThatHasLeft) {
  std::vector<Report> reports = {report_of(0, 2, 4)};
  reports[0].left[1] = 4;
  EXPECT_TRUE(diagnose(reports).missing.empty());
}

TEST(Doctor, AddsUpWhoCameLast) {
  std::vector<Report> reports = {report_of(0, 3, 4), report_of(1, 3, 4), report_of(2, 3, 4)};
  reports[0].waited_for[2] = {5, 1.5};
  reports[1].waited_for[2] = {6, 2.0};
  reports[1].waited_for[0] = {1, 0.1};
  EXPECT_TRUE(says(diagnose(reports), "waited for most: rank 2 (11 times, 3.500 s), rank 0 (1 times, 0.100 s)"))
      << to_text(diagnose(reports));
}

// Rank r of "dp" is the process that is rank `rank` of this one.
Report elsewhere(const std::string& name, int rank, int ranks, std::uint64_t last) {
  Report report = report_of(rank, ranks, last);
  report.name = name;
  report.id = "id of " + name;
  return report;
}

TEST(Doctor, FindsTheCircleOfTwoCommunicatorsThatAreCalledInDifferentOrders) {
  const auto all = diagnose_job({{waiting(report_of(0, 2, 6)), report_of(1, 2, 5)},
                                 {elsewhere("tp", 0, 2, 0), waiting(elsewhere("tp", 1, 2, 1))}});
  ASSERT_EQ(all.size(), 2u);
  const char* const end = ": a circle. Make these calls in one order on all ranks, or in one Group";
  EXPECT_TRUE(says(all[0],
                   "rank 1: in no call; the last was all_reduce f32×1000 sum #5; its process is in all_reduce "
                   "f32×1000 sum #1 of \"tp\""))
      << to_text(all[0]);
  EXPECT_TRUE(says(all[0],
                   "rank 1 (node1 pid 101) is in all_reduce f32×1000 sum #1 of \"tp\" and waits for rank 0 "
                   "(node1 pid 100), which is in all_reduce f32×1000 sum #6 of \"dp\" and waits for rank 1 "
                   "(node1 pid 101)" +
                       std::string(end)))
      << to_text(all[0]);
  EXPECT_TRUE(says(all[1], end)) << to_text(all[1]);
  for (const Diagnosis& one : all) EXPECT_FALSE(says(one, "outside of tutti")) << to_text(one);
}

TEST(Doctor, LeadsToTheCommunicatorInWhichAProcessWaits) {
  // Rank 1 of "dp" waits in "tp" for a rank that computes.
  Report third = elsewhere("tp", 1, 2, 0);
  third.pid = 300;
  Report first = waiting(elsewhere("tp", 0, 2, 1));
  first.pid = 101;
  const auto all = diagnose_job({{waiting(report_of(0, 2, 6)), report_of(1, 2, 5)}, {first, third}});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(says(all[0],
                   "its process is in all_reduce f32×1000 sum #1 of \"tp\", and waits there for rank 1: see "
                   "communicator \"tp\""))
      << to_text(all[0]);
  EXPECT_TRUE(says(all[1], "in no call, and has made none yet. It computes, or hangs outside of tutti"))
      << to_text(all[1]);
}

TEST(Doctor, TakesProcessesOfOtherHostsNamespacesAndTimesForOthers) {
  for (int i = 0; i < 3; ++i) {
    Report other = waiting(elsewhere("tp", 1, 2, 1));
    if (i == 0) other.host = "node2";
    if (i == 1) other.pid_namespace = 7;
    if (i == 2) other.written = 3600;
    const auto all =
        diagnose_job({{waiting(report_of(0, 2, 6)), report_of(1, 2, 5)}, {waiting(elsewhere("tp", 0, 2, 1)), other}});
    EXPECT_TRUE(says(all[0], "It computes, or hangs outside of tutti")) << to_text(all[0]);
  }
}

TEST(Doctor, FollowsNoWaitThatHasFailed) {
  Report failed = waiting(elsewhere("tp", 1, 2, 1));
  failed.failed = true;
  failed.operations.back().phase = "failed";
  const auto all =
      diagnose_job({{waiting(report_of(0, 2, 6)), report_of(1, 2, 5)}, {waiting(elsewhere("tp", 0, 2, 1)), failed}});
  EXPECT_TRUE(says(all[0], "It computes, or hangs outside of tutti")) << to_text(all[0]);
}

TEST(Doctor, DoesNotGuessWhichThreadOfAProcessIsWhichRank) {
  std::vector<std::vector<Report>> communicators = {{waiting(report_of(0, 2, 6)), report_of(1, 2, 5)},
                                                    {elsewhere("tp", 0, 2, 0), waiting(elsewhere("tp", 1, 2, 1))}};
  for (auto& reports : communicators) {
    for (Report& report : reports) report.pid = 100;
  }
  const auto all = diagnose_job(communicators);
  EXPECT_TRUE(says(all[0], "its process is several ranks of this one")) << to_text(all[0]);
  EXPECT_FALSE(says(all[0], "circle")) << to_text(all[0]);
}

TEST(Doctor, PutsHealthyCommunicatorsLast) {
  const auto all = diagnose_job({{report_of(0, 1, 5)}, {elsewhere("tp", 0, 2, 1)}});
  EXPECT_EQ(all[0].name, "tp");
  EXPECT_TRUE(all[1].healthy());
}

TEST(Doctor, FitsOnAScreenWithAThousandRanks) {
  std::vector<Report> reports;
  for (int r = 0; r < 1000; r += 2)
    reports.push_back(waiting(report_of(r, 1000, static_cast<std::uint64_t>(r % 40) + 1)));
  const std::string text = to_text(diagnose(reports));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60);
  EXPECT_LT(text.size(), 10'000u);
}

TEST(Doctor, WritesRanksAsRanges) {
  EXPECT_EQ(ranges({}), "");
  EXPECT_EQ(ranges({7}), "7");
  EXPECT_EQ(ranges({3, 1, 2, 0, 7, 5, 8}), "0-3,5,7,8");
}

}  // namespace
}  // namespace tutti::doctor
