// What a signal asks a process for is written beside what keeps it alive.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "bootstrap/process.h"

namespace tutti {
namespace {

using Handler = void (*)(int);

Handler handler_of(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

// A communicator that is in no call, or in what the test says.
class Communicating : public Reporter {
 public:
  explicit Communicating(std::string id = "some") : id_(std::move(id)) {}
  void report_now() override {}
  const std::string& id() const override { return id_; }
  InCall in_call() const override { return call_; }
  void is_in(InCall call) { call_ = std::move(call); }

 private:
  const std::string id_;
  InCall call_;
};

class Counting : public Communicating {
 public:
  void report_now() override { asked_.set_value(); }
  bool asked() { return asked_.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready; }

 private:
  std::promise<void> asked_;
};

// Its file system does not answer.
class Hanging : public Communicating {
 public:
  void report_now() override {
    begun_.set_value();
    go_on_.get_future().wait();
  }
  std::promise<void> begun_, go_on_;
};

TEST(Reporters, DoNotHoldTheControlThread) {
  const auto process = Process::get();
  const auto hanging = std::make_shared<Hanging>();
  process->add_reporter(hanging, SIGUSR2);
  ::raise(SIGUSR2);
  hanging->begun_.get_future().wait();
  const auto turn = std::make_shared<std::promise<void>>();
  process->loop().post([turn] { turn->set_value(); });
  EXPECT_EQ(turn->get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  hanging->go_on_.set_value();
}

TEST(Reporters, AreAskedAgainByTheProcessThatComesAfter) {
  for (int i = 0; i < 3; ++i) {
    const auto process = Process::get();
    const auto counting = std::make_shared<Counting>();
    process->add_reporter(counting, SIGUSR2);
    ::raise(SIGUSR2);
    EXPECT_TRUE(counting->asked());
  }
  EXPECT_EQ(handler_of(SIGUSR2), SIG_DFL);
}

// A signal that a thread has just got when the last communicator goes.
TEST(Reporters, LeaveNoHandlerThatEndsTheProcess) {
  Handler handler = nullptr;
  {
    const auto process = Process::get();
    process->add_reporter(std::make_shared<Counting>(), SIGUSR2);
    handler = handler_of(SIGUSR2);
    ASSERT_NE(handler, SIG_DFL);
  }
  handler(SIGUSR2);
  EXPECT_EQ(handler_of(SIGUSR2), SIG_DFL);
}

TEST(Reporters, TellWhatTheProcessIsInOnOtherCommunicators) {
  const auto process = Process::get();
  const auto own = std::make_shared<Communicating>("own");
  const auto shorter = std::make_shared<Communicating>("shorter");
  const auto longer = std::make_shared<Communicating>("longer");
  own->is_in({"barrier #1", 9'000});
  shorter->is_in({"barrier #2", 3'000});
  longer->is_in({"barrier #3", 4'000});
  for (const auto& one : {own, shorter, longer}) process->add_reporter(one, 0);
  const auto told = [&] {
    std::string text;
    process->loop().call([&] { text = process->in_other_call(*own); });
    return text;
  };
  EXPECT_EQ(told(), "barrier #3");
  longer->is_in({});
  EXPECT_EQ(told(), "barrier #2");
  shorter->is_in({"barrier #4", 1});
  EXPECT_EQ(told(), "") << "what has just begun keeps nobody waiting";
  // Two ranks of one communicator in this process: nobody knows which of them is in what.
  longer->is_in({"barrier #5", 4'000});
  const auto same = std::make_shared<Communicating>("own");
  process->add_reporter(same, 0);
  EXPECT_EQ(told(), "");
}

}  // namespace
}  // namespace tutti
