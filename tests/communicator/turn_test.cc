#include "communicator/turn.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "communicator/session.h"
#include "communicator/setup.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

// A communicator of one rank whose next number is held by a call that does not get on.
class Turns : public testing::Test {
 protected:
  static CollectiveArguments barrier() { return {}; }
  ErrorCode code_of_call(std::chrono::milliseconds limit = {}) {
    try {
      session_->collectives().run(barrier(), limit);
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "no error";
    return ErrorCode::kCallback;
  }
  TurnOrder& order() { return session_->collectives().order(); }

  std::unique_ptr<Session> session_ = open_session({}, Config::from_environment(), {});
  std::uint64_t held_ = order().take();
};

TEST_F(Turns, WaitingCallsEndWithAnAbort_D6) {
  ErrorCode blocking = ErrorCode::kCallback;
  std::thread thread([&] { blocking = code_of_call(); });
  while (!order().is_called(held_)) std::this_thread::yield();
  session_->abort("enough");
  thread.join();  // while the number before it is still held
  EXPECT_EQ(blocking, ErrorCode::kAborted);
  EXPECT_EQ(code_of_call(), ErrorCode::kAborted);
  EXPECT_TRUE(order().is_called(held_));
  order().pass(held_);
}

TEST_F(Turns, WaitingCallsHaveALimit_D6) {
  EXPECT_EQ(code_of_call(milliseconds(20)), ErrorCode::kTimeout);
  order().pass(held_);
}

// Also destroy(), which takes a number of its own.
TEST_F(Turns, PassOverNumbersThatWereGivenUp_D6) {
  session_->abort("enough");
  for (int i = 0; i < 200; ++i) EXPECT_EQ(code_of_call(), ErrorCode::kAborted);
  const std::uint64_t last = order().take();
  EXPECT_FALSE(order().has_come(last));
  order().pass(held_);
  EXPECT_TRUE(order().has_come(last));
  order().pass(last);
  session_->destroy();
}

TEST_F(Turns, ThatHaveComeAreNotGivenUp_D6) {
  EXPECT_FALSE(order().give_up(held_));
  order().pass(held_);
  session_->collectives().run(barrier(), {});
}

// A call that is dropped after it has taken its number, for want of memory, holds up nobody.
TEST_F(Turns, OfCallsThatAreDroppedArePassedOver_D6) {
  const auto behind = session_->collectives().prepare(barrier(), {});
  {
    const auto dropped = session_->collectives().prepare(barrier(), {});
    dropped->issue();
    behind->issue();
  }
  EXPECT_EQ(behind->progress(), Progress::kFailed);
  EXPECT_EQ(behind->error().code(), ErrorCode::kSystem) << behind->error().what();
  order().pass(held_);
  const auto first = session_->collectives().prepare(barrier(), {});
  first->issue();
  EXPECT_EQ(first->progress(), Progress::kFailed);
}

TEST_F(Turns, OfOneCallEachAreGivenUpByManyThreads_D6) {
  session_->abort("enough");
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) ended += code_of_call() == ErrorCode::kAborted ? 1 : 0;
    });
  }
  order().pass(held_);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 400);
  const std::uint64_t last = order().take();
  EXPECT_TRUE(order().has_come(last));
  order().pass(last);
}

}  // namespace
}  // namespace tutti
