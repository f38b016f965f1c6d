// What comes of a question, whenever its answer is there: with a control plane that answers when the test says so.

#include "communicator/stall_watch.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace tutti {
namespace {

using std::chrono::milliseconds;

class Plane : public ControlPlane {
 public:
  std::unique_ptr<ControlPlane> split(const Subset&, Health&) override { return nullptr; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte>, Deadline) override { return {}; }
  int waits_for() const override { return -1; }
  std::string describe(int rank) const override { return "rank " + std::to_string(rank); }
  void poison(ErrorCode, const std::string&, int) override { ADD_FAILURE() << "not in order"; }
  void poison_in_order(ErrorCode code, const std::string& reason, int peer) override {
    poisoned.emplace(code, reason, peer);
  }
  void compare_call(const CallDescription&) override {}
  void set_describe_call(DescribeCall) override {}
  void survey(milliseconds, std::function<bool()> wanted, std::function<void(const Survey&)> done) override {
    ++questions;
    wanted_ = std::move(wanted);
    done_ = std::move(done);
  }
  void report(const std::string&, int) override {}
  void set_survey_handlers(SurveyHandlers) override {}
  void set_data_handler(DataHandler) override {}
  void connect_data(int) override {}
  std::unique_ptr<SurvivorCall> call_survivors(const Config&, Deadline) override { return nullptr; }
  std::vector<std::byte> derive_key(std::string_view) const override { return std::vector<std::byte>(32); }
  void leave(std::uint64_t) override {}

  bool ask() { return wanted_(); }
  // Nobody but this rank has said anything.
  void answer() {
    Survey survey;
    survey.unknown = RankSet(1);
    done_(survey);
  }

  int questions = 0;
  std::optional<Error> poisoned;

 private:
  std::function<bool()> wanted_;
  std::function<void(const Survey&)> done_;
};

class Watched : public testing::Test {
 protected:
  Health health_{2};
  Plane plane_;
  OperationLog log_;
  const Self self_{"dp", 0, 2, health_, plane_, log_};
  CommunicatorReport report_{{self_, [] { return Statistics(); }, ""}};
  StallWatch watch_{self_, report_, milliseconds(0)};
  const int late_ = 0, other_ = 0;  // operations
};

TEST_F(Watched, ALateCallFailsTheCommunicatorWithTheAnswer) {
  watch_.time_out(&late_, "barrier #2", milliseconds(100));
  EXPECT_EQ(plane_.questions, 1);
  watch_.time_out(&late_, "barrier #2", milliseconds(100));
  EXPECT_EQ(plane_.questions, 1) << "asked before";
  ASSERT_TRUE(plane_.ask());
  EXPECT_FALSE(plane_.poisoned);
  plane_.answer();
  ASSERT_TRUE(plane_.poisoned);
  EXPECT_EQ(plane_.poisoned->code(), ErrorCode::kTimeout);
  EXPECT_NE(std::string(plane_.poisoned->what()).find("barrier #2 on rank 0 has not ended within 100 ms"),
            std::string::npos)
      << plane_.poisoned->what();
}

TEST_F(Watched, ACallThatEndsWhileRanksAreAskedHasEnded) {
  watch_.time_out(&late_, "barrier #2", milliseconds(100));
  ASSERT_TRUE(plane_.ask());
  watch_.forget(&late_);
  plane_.answer();
  EXPECT_FALSE(plane_.poisoned) << plane_.poisoned->what();
}

TEST_F(Watched, OfTwoLateCallsTheOneThatHasNotEndedIsTheReason) {
  watch_.time_out(&late_, "barrier #2", milliseconds(100));
  watch_.time_out(&other_, "recv from 1", milliseconds(200));
  ASSERT_TRUE(plane_.ask());
  watch_.forget(&late_);
  plane_.answer();
  ASSERT_TRUE(plane_.poisoned);
  EXPECT_NE(std::string(plane_.poisoned->what()).find("recv from 1"), std::string::npos) << plane_.poisoned->what();
}

TEST_F(Watched, NobodyIsAskedOnceTheCommunicatorHasFailed) {
  watch_.time_out(&late_, "barrier #2", milliseconds(100));
  health_.fail(ErrorCode::kRemote, "rank 1 died", 1);
  EXPECT_FALSE(plane_.ask());
}

}  // namespace
}  // namespace tutti
