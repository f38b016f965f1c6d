// What a communicator writes about itself: into the caller's hands, and into a directory when it fails.

#include "doctor/report.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "doctor/diagnosis.h"
#include "support/ranks.h"

namespace tutti {
namespace {

class Reports : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "tutti_reports_XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  RankSetup writing(const std::string& name = "dp") const {
    RankSetup setup = with_config({{"TUTTI_DUMP_DIR", directory_}});
    setup.options.name = name;
    return setup;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      // Files that are being written have other names.
      if (entry.path().filename().string().starts_with("tutti-")) names.push_back(entry.path().filename());
    }
    return names;
  }
  std::map<int, doctor::Report> reports() const {
    std::map<int, doctor::Report> reports;
    for (const std::string& name : names()) {
      std::ifstream file(directory_ + "/" + name);
      doctor::Report report = doctor::parse_report(name, std::string(std::istreambuf_iterator<char>(file), {}));
      EXPECT_FALSE(reports.contains(report.rank)) << "two files of one rank";
      reports[report.rank] = report;
    }
    return reports;
  }

  std::string directory_;
};

TEST_F(Reports, AreWrittenByEveryRankWhenTheCommunicatorFails) {
  constexpr int kRanks = 3;
  run_ranks(
      kRanks,
      [](Communicator& communicator) {
        communicator.barrier();
        std::vector<float> data(communicator.rank() == 1 ? 7 : 8);
        communicator.all_reduce(std::span<const float>(data), std::span(data));
      },
      writing());
  const auto written = reports();
  ASSERT_EQ(written.size(), static_cast<std::size_t>(kRanks));
  std::vector<doctor::Report> list;
  for (const auto& [rank, report] : written) {
    EXPECT_EQ(report.name, "dp");
    EXPECT_EQ(report.id, written.at(0).id);
    EXPECT_EQ(report.ranks, kRanks);
    EXPECT_TRUE(report.failed);
    EXPECT_EQ(report.failure_code, "mismatch");
    EXPECT_EQ(report.members.size(), static_cast<std::size_t>(kRanks));
    EXPECT_GE(report.last_issued(), 1u) << "the others may have disagreed before this rank came";
    list.push_back(report);
  }
  const doctor::Diagnosis diagnosis = doctor::diagnose(list);
  EXPECT_EQ(diagnosis.divergence, 2u) << doctor::to_text(diagnosis);
  ASSERT_EQ(diagnosis.diverging.size(), 2u);
  const auto& odd = diagnosis.diverging[diagnosis.diverging[0].ranks == std::vector<int>{1} ? 0 : 1];
  EXPECT_EQ(odd.ranks, std::vector<int>{1});
  EXPECT_EQ(odd.text, "all_reduce f32×7 sum");
}

TEST_F(Reports, AreWrittenByARankThatIsInNoCallAndByOneAlone) {
  run_ranks(
      2,
      [this](Communicator& communicator) {
        communicator.barrier();
        if (communicator.rank() == 0) communicator.abort("enough");
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (names().size() < 2 && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      },
      writing("pair"));
  EXPECT_EQ(reports().size(), 2u);
  run_ranks(
      1,
      [](Communicator& communicator) {
        communicator.abort("enough");
        communicator.barrier();
      },
      writing("alone"));
  EXPECT_EQ(names().size(), 3u);
}

TEST_F(Reports, AreNotWrittenWhereNothingFails) {
  expect_ranks(
      2, [](Communicator& communicator) { communicator.barrier(); }, writing());
  EXPECT_TRUE(names().empty());
}

TEST_F(Reports, HaveNamesThatStayInTheirDirectory) {
  run_ranks(
      1,
      [](Communicator& communicator) {
        communicator.abort();
        communicator.barrier();
      },
      writing("../../tmp/a b\n"));
  ASSERT_EQ(names().size(), 1u);
  EXPECT_TRUE(names().front().starts_with("tutti-_._.._tmp_a_b_-rank0-pid")) << names().front();
}

TEST_F(Reports, HoldNoMoreThanTheLastCalls) {
  run_ranks(
      2,
      [](Communicator& communicator) {
        float value = 1;
        for (int i = 0; i < 3000; ++i) communicator.all_reduce(&value, &value, 1, DataType::kF32, kMax);
        communicator.abort();
        communicator.barrier();
      },
      writing());
  for (const auto& [rank, report] : reports()) EXPECT_LE(report.operations.size(), 1024u);
  for (const std::string& name : names()) EXPECT_LT(std::filesystem::file_size(directory_ + "/" + name), 1u << 20);
}

TEST(StatisticsJson, LeavesOutWhatNeverHappened) {
  Statistics statistics;
  statistics.collectives["all_reduce"] = {3, 300};
  statistics.collectives["broadcast"] = {};
  statistics.waited_for.resize(3);
  statistics.waited_for[2] = {4, 0.5};
  statistics.messages_read_in_place = 7;
  statistics.setup_seconds = 0.25;
  EXPECT_EQ(statistics.to_json(), R"({"collectives":{"all_reduce":{"calls":3,"bytes":300}},)"
                                  R"("waited_for":[{"rank":2,"calls":4,"seconds":0.5}],)"
                                  R"("messages_read_in_place":7,"setup_seconds":0.25,"discovery_seconds":0})");
}

}  // namespace
}  // namespace tutti
