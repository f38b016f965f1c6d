#include "executor/operation_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

CallShape shape_of(std::uint64_t count, Collective collective = Collective::kAllReduce) {
  return {collective, DataType::kF32, ReduceOp::Kind::kMax, 7, count};
}

class OperationLogTest : public testing::Test {
 protected:
  OperationLog::Entry* run(std::uint64_t sequence, const CallShape& shape) {
    return log_->enter(shape, sequence, log_->sign(shape, sequence), false);
  }

  std::unique_ptr<OperationLog> log_ = std::make_unique<OperationLog>();
};

TEST_F(OperationLogTest, KnowsACallWhileItRunsAndWhenItHasEnded) {
  OperationLog::Entry* entry = run(1, shape_of(1000, Collective::kBroadcast));
  OperationRecord record;
  ASSERT_TRUE(log_->find(1, record));
  EXPECT_EQ(record.phase, Phase::kRunning);
  EXPECT_EQ(record.shape.collective, Collective::kBroadcast);
  EXPECT_EQ(record.shape.type, DataType::kF32);
  EXPECT_EQ(record.shape.op, ReduceOp::Kind::kMax);
  EXPECT_EQ(record.shape.root, 7u);
  EXPECT_EQ(record.shape.count, 1000u);
  EXPECT_EQ(record.signature, signature_of(shape_of(1000, Collective::kBroadcast), 1));
  EXPECT_GT(record.issued, nanoseconds(0));
  EXPECT_EQ(record.ended, nanoseconds(0));
  EXPECT_EQ(record.waited_for, -1);

  OperationLog::wait(entry, 3, milliseconds(250));
  ASSERT_TRUE(log_->find(1, record));
  EXPECT_EQ(record.waited_for, 3);
  EXPECT_EQ(record.waited, milliseconds(250));

  OperationLog::end(entry, Phase::kFailed, false);
  ASSERT_TRUE(log_->find(1, record));
  EXPECT_EQ(record.phase, Phase::kFailed);
  EXPECT_EQ(record.waited_for, 3);
  EXPECT_GE(record.ended, record.issued - milliseconds(20)) << "it waited, so its end is timed";
}

TEST_F(OperationLogTest, TakesNoTimeOfMostQuickCallsUnlessTheyWait) {
  int timed = 0;
  for (std::uint64_t sequence = 1; sequence <= 256; ++sequence) {
    OperationLog::Entry* entry = log_->enter(shape_of(2), sequence, log_->sign(shape_of(2), sequence), true);
    OperationRecord record;
    ASSERT_TRUE(log_->find(sequence, record));
    if (record.issued > nanoseconds(0)) ++timed;
    if (sequence == 5) {
      OperationLog::stamp(entry);
      ASSERT_TRUE(log_->find(sequence, record));
      EXPECT_GT(record.issued, nanoseconds(0));
    }
    OperationLog::end(entry, Phase::kDone, false);
  }
  EXPECT_EQ(timed, 8);
}

TEST_F(OperationLogTest, SignsACallLikeEveryOtherRankWhateverCameBefore) {
  for (std::uint64_t sequence = 1; sequence <= 20; ++sequence) {
    const CallShape shape = shape_of(sequence / 3);
    const std::uint64_t signature = log_->sign(shape, sequence);
    EXPECT_EQ(signature, signature_of(shape, sequence)) << sequence;
    if (sequence % 4 != 0) log_->enter(shape, sequence, signature, false);  // the next call's hash is not always ready
  }
}

TEST_F(OperationLogTest, KeepsTheLast1024Calls) {
  for (std::uint64_t sequence = 1; sequence <= 3000; ++sequence) {
    OperationLog::end(run(sequence, shape_of(sequence)), Phase::kDone, false);
  }
  OperationRecord record;
  EXPECT_FALSE(log_->find(3000 - OperationLog::kEntries, record));
  EXPECT_TRUE(log_->find(3001 - OperationLog::kEntries, record));
  EXPECT_FALSE(log_->find(3001, record));
  const auto records = log_->records();
  ASSERT_EQ(records.size(), OperationLog::kEntries);
  for (std::size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].number, 3001 - OperationLog::kEntries + i);
}

TEST_F(OperationLogTest, EntersAQueuedCallWhereAnOlderOneHasEndedAndNowhereElse) {
  OperationLog::Entry* first = run(1, shape_of(1));
  for (std::uint64_t sequence = 2; sequence <= OperationLog::kEntries; ++sequence) {
    EXPECT_NE(log_->enter_queued(shape_of(2), sequence), nullptr);
  }
  EXPECT_EQ(log_->enter_queued(shape_of(3), 1 + OperationLog::kEntries), nullptr) << "call 1 has not ended";
  OperationLog::end(first, Phase::kDone, false);
  OperationLog::Entry* late = log_->enter_queued(shape_of(3), 1 + OperationLog::kEntries);
  ASSERT_NE(late, nullptr);
  OperationRecord record;
  ASSERT_TRUE(log_->find(1 + OperationLog::kEntries, record));
  EXPECT_EQ(record.phase, Phase::kQueued);
  EXPECT_EQ(record.signature, signature_of(shape_of(3), 1 + OperationLog::kEntries));
  OperationLog::begin(late);
  ASSERT_TRUE(log_->find(1 + OperationLog::kEntries, record));
  EXPECT_EQ(record.phase, Phase::kRunning);
  EXPECT_GT(record.started, nanoseconds(0));
}

TEST_F(OperationLogTest, NeverOverwritesATransferThatWaits) {
  OperationLog::Entry* waiting = log_->enter_transfer(false, DataType::kI8, 5, -1, -3);
  for (int i = 0; i < 5000; ++i) {
    OperationLog::end(log_->enter_transfer(true, DataType::kF64, 9, 2, 1), Phase::kDone, false);
  }
  int found = 0;
  for (const OperationRecord& record : log_->records()) {
    if (record.kind != OperationRecord::Kind::kReceive) continue;
    ++found;
    EXPECT_EQ(record.phase, Phase::kRunning);
    EXPECT_EQ(record.peer, -1);
    EXPECT_EQ(record.tag, -3);
    EXPECT_EQ(record.shape.count, 5u);
  }
  EXPECT_EQ(found, 1);
  OperationLog::end(waiting, Phase::kDone, false);
}

TEST_F(OperationLogTest, LeavesOutWhatFindsNoPlaceAmongTransfersThatWait) {
  std::vector<OperationLog::Entry*> waiting;
  for (std::size_t i = 0; i < OperationLog::kEntries; ++i) {
    waiting.push_back(log_->enter_transfer(true, DataType::kI8, 1, 0, 0));
    ASSERT_NE(waiting.back(), nullptr);
  }
  EXPECT_EQ(log_->enter_transfer(true, DataType::kI8, 1, 0, 0), nullptr);
  OperationLog::end(nullptr, Phase::kDone, false);  // what its operation does then
  OperationLog::wait(nullptr, 0, milliseconds(1));
}

// Whoever reads sees an entry whole or not at all, while calls and transfers of other threads go round the rings.
TEST_F(OperationLogTest, ShowsNoTornEntry) {
  std::atomic<bool> over{false};
  std::thread collectives([&] {
    for (std::uint64_t sequence = 1; !over; ++sequence) {
      OperationLog::Entry* entry = run(sequence, shape_of(sequence * 3));
      if (sequence % 7 == 0) OperationLog::wait(entry, static_cast<int>(sequence % 100), nanoseconds(sequence * 1000));
      OperationLog::end(entry, Phase::kDone, false);
    }
  });
  std::vector<std::thread> transfers;
  for (int t = 0; t < 2; ++t) {
    transfers.emplace_back([&, t] {
      for (int i = 1; !over; ++i) {
        OperationLog::Entry* entry =
            log_->enter_transfer(t == 0, DataType::kU8, static_cast<std::uint64_t>(i), i % 50, i);
        OperationLog::end(entry, Phase::kDone, false);
      }
    });
  }
  std::uint64_t seen = 0;
  bool whole = true;
  for (int round = 0; round < 200 || seen < 1000; ++round) {
    for (const OperationRecord& record : log_->records()) {
      ++seen;
      if (record.kind == OperationRecord::Kind::kCollective) {
        whole = whole && record.shape.count == record.number * 3 &&
                record.signature == signature_of(record.shape, record.number) &&
                (record.waited_for < 0 || record.waited_for == static_cast<int>(record.number % 100));
      } else {
        whole = whole && record.shape.count == static_cast<std::uint64_t>(record.tag) && record.peer == record.tag % 50;
      }
    }
  }
  over = true;
  collectives.join();
  for (std::thread& thread : transfers) thread.join();
  EXPECT_TRUE(whole);
}

}  // namespace
}  // namespace tutti
