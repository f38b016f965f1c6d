// What a job writes when it is asked, or fails, and what `tutti doctor` makes of it.

#include "doctor/report.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "doctor/diagnosis.h"
#include "process/job.h"

namespace tutti {
namespace {

class Report : public ProcessTest {
 protected:
  static constexpr int kRanks = 3;
  static constexpr int kVictim = 2;
  static constexpr milliseconds kLongWait{2500};  // what the doctor calls a wait is at least a second

  Environment writing() const { return {{"TUTTI_DUMP_DIR", directory() + "/reports"}, {"TUTTI_DUMP_SIGNAL", "USR1"}}; }
  void SetUp() override {
    ProcessTest::SetUp();
    if (!directory().empty()) std::filesystem::create_directory(directory() + "/reports");
  }

  std::vector<doctor::Report> reports() const {
    std::vector<doctor::Report> reports;
    for (const auto& entry : std::filesystem::directory_iterator(directory() + "/reports")) {
      if (!entry.path().filename().string().starts_with("tutti-")) continue;
      std::ifstream file(entry.path());
      reports.push_back(
          doctor::parse_report(entry.path().string(), std::string(std::istreambuf_iterator<char>(file), {})));
    }
    return reports;
  }
  // Waits for so many.
  std::vector<doctor::Report> reports_of(std::size_t ranks) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (reports().size() < ranks && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_EQ(reports().size(), ranks);
    return reports();
  }
  static std::vector<int> blamed(const doctor::Diagnosis& diagnosis) {
    std::vector<int> ranks;
    for (const auto& blame : diagnosis.blame) ranks.insert(ranks.end(), blame.ranks.begin(), blame.ranks.end());
    return ranks;
  }
  // All but the victim wait in a barrier.
  std::unique_ptr<Job> hang() {
    auto job = std::make_unique<Job>(
        kRanks, std::vector<std::string>{"name:red", "join", "sums:10", "say:ready"}, place(), writing(),
        [](int rank, Program& program) { program.command.push_back(rank == kVictim ? "sleep:60000" : "barrier"); });
    EXPECT_TRUE(job->all_said("ready"));
    std::this_thread::sleep_for(kLongWait);
    return job;
  }
};

TEST_F(Report, IsWrittenAtASignalByAJobThatHangsAndNamesTheRankThatDoesNotCome) {
  const auto job = hang();
  for (int rank = 0; rank < kRanks; ++rank) job->rank(rank).send(SIGUSR1);
  const doctor::Diagnosis diagnosis = doctor::diagnose(reports_of(kRanks));
  EXPECT_EQ(diagnosis.name, "red");
  EXPECT_EQ(blamed(diagnosis), std::vector<int>{kVictim}) << doctor::to_text(diagnosis);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_FALSE(job->rank(rank).wait(milliseconds(100))) << "a signal ended rank " << rank;
    EXPECT_TRUE(job->rank(rank).wait_for_text("/reports/tutti-red-rank" + std::to_string(rank), kPatience));
  }
  RecordProperty("doctor", doctor::to_text(diagnosis));
}

// Rank 0 calls one communicator first, rank 1 the other.
TEST_F(Report, FindsTwoCommunicatorsThatAreCalledInDifferentOrders) {
  Environment environment = writing();
  environment["TUTTI_STALL_WARNING"] = "2";
  Job job(2, {"name:world", "join", "split:tp:0"}, place(), environment, [](int rank, Program& program) {
    for (const int turn : {0, 1}) {
      program.command.push_back(turn == rank ? "use:tp" : "use:");
      if (turn == 0) program.command.push_back("say:ready");
      program.command.push_back("barrier");
    }
  });
  ASSERT_TRUE(job.all_said("ready"));
  for (int rank = 0; rank < 2; ++rank) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!contains(job.rank(rank).text(), "its process is in barrier #") &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_TRUE(contains(job.rank(rank).text(), "its process is in barrier #")) << job.rank(rank).text();
  }
  std::this_thread::sleep_for(kLongWait);
  for (int rank = 0; rank < 2; ++rank) job.rank(rank).send(SIGUSR1);
  std::map<std::string, std::vector<doctor::Report>> by_id;
  for (doctor::Report& report : reports_of(4)) by_id[report.id].push_back(std::move(report));
  std::vector<std::vector<doctor::Report>> communicators;
  for (auto& [id, reports] : by_id) communicators.push_back(std::move(reports));
  std::string screen;
  for (const doctor::Diagnosis& diagnosis : doctor::diagnose_job(communicators)) {
    const std::string text = doctor::to_text(diagnosis);
    EXPECT_TRUE(contains(text, ": a circle. Make these calls in one order")) << text;
    EXPECT_FALSE(contains(text, "outside of tutti")) << text;
    screen += text;
  }
  RecordProperty("doctor", screen);
}

TEST_F(Report, NamesTheRankThatIsStopped) {
  const auto job = hang();
  job->rank(kVictim).stop();
  for (int rank = 0; rank < kRanks; ++rank) job->rank(rank).send(SIGUSR1);
  const doctor::Diagnosis diagnosis = doctor::diagnose(reports_of(kRanks - 1));
  EXPECT_EQ(diagnosis.missing, std::vector<int>{kVictim});
  EXPECT_EQ(blamed(diagnosis), std::vector<int>{kVictim}) << doctor::to_text(diagnosis);
  job->rank(kVictim).send(SIGCONT);
}

TEST_F(Report, IsWrittenByTheSurvivorsOfADeath) {
  const auto job = hang();
  job->rank(kVictim).send(SIGKILL);
  job->all_ended(3, {kVictim});
  const auto written = reports_of(kRanks - 1);
  for (const doctor::Report& report : written) {
    EXPECT_TRUE(report.failed);
    EXPECT_EQ(report.failure_peer, kVictim);
    EXPECT_TRUE(contains(report.failure_reason, "died")) << report.failure_reason;
  }
  const doctor::Diagnosis diagnosis = doctor::diagnose(written);
  EXPECT_EQ(diagnosis.missing, std::vector<int>{kVictim});
  EXPECT_FALSE(diagnosis.healthy());
}

TEST_F(Report, LeavesTheSignalToAnApplicationThatHandlesIt) {
  Job job(2, {"join", "say:ready", "sleep:1500", "barrier", "destroy"}, place(), writing(),
          [](int, Program& program) { program.prepare = [] { ::signal(SIGUSR1, SIG_IGN); }; });
  ASSERT_TRUE(job.all_said("ready"));
  for (int rank = 0; rank < 2; ++rank) job.rank(rank).send(SIGUSR1);
  EXPECT_TRUE(job.all_ended(0));
  EXPECT_TRUE(reports().empty());
}

TEST_F(Report, LeavesTheSignalAloneWhereItIsToldTo) {
  Environment environment = writing();
  environment["TUTTI_DUMP_SIGNAL"] = "none";
  Job job(2, {"join", "say:ready", "sleep:60000"}, place(), environment);
  ASSERT_TRUE(job.all_said("ready"));
  for (int rank = 0; rank < 2; ++rank) job.rank(rank).send(SIGUSR1);
  EXPECT_TRUE(job.all_ended(128 + SIGUSR1));
  // A rank may see the other's end before the signal ends it, too.
  for (const doctor::Report& report : reports()) EXPECT_TRUE(report.failed);
}

TEST_F(Report, GivesTheSignalBackWithTheLastCommunicator) {
  Job job(2, {"join", "barrier", "destroy", "say:gone", "sleep:60000"}, place(), writing());
  ASSERT_TRUE(job.all_said("gone"));
  for (int rank = 0; rank < 2; ++rank) job.rank(rank).send(SIGUSR1);
  EXPECT_TRUE(job.all_ended(128 + SIGUSR1));
}

TEST_F(Report, TakesAnotherSignalWhereItIsToldTo) {
  Environment environment = writing();
  environment["TUTTI_DUMP_SIGNAL"] = "USR2";
  Job job(2, {"join", "say:ready", "sleep:3000", "barrier", "destroy"}, place(), environment);
  ASSERT_TRUE(job.all_said("ready"));
  for (int rank = 0; rank < 2; ++rank) job.rank(rank).send(SIGUSR2);
  reports_of(2);
  EXPECT_TRUE(job.all_ended(0));
}

}  // namespace
}  // namespace tutti
