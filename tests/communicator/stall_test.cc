// What a rank that waits for long is told, and what a call's limit ends with.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "communicator/ways.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Stalls : public OnHosts {
 protected:
  static RankSetup warning(const char* seconds) {
    RankSetup made = setup();
    made.options.config["TUTTI_STALL_WARNING"] = seconds;
    return made;
  }
};
TUTTI_ON_ALL_HOSTS(Stalls);

// What is written to standard error meanwhile.
class Lines {
 public:
  Lines() { testing::internal::CaptureStderr(); }
  ~Lines() {
    if (!taken_) testing::internal::GetCapturedStderr();
  }
  std::string take() {
    taken_ = true;
    return testing::internal::GetCapturedStderr();
  }

 private:
  bool taken_ = false;
};

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.find(part) != std::string::npos) lines.push_back(line);
    begin = end + 1;
  }
  return lines;
}

// Expects so many such lines, of all ranks together, each with all of these parts.
void expect_lines(const std::string& text, const std::string& subject, std::size_t least, std::size_t most,
                  const std::vector<std::string>& parts) {
  const auto lines = lines_with(text, subject);
  EXPECT_GE(lines.size(), least) << text;
  EXPECT_LE(lines.size(), most) << text;
  for (const std::string& line : lines) {
    EXPECT_NE(line.find("WARN"), std::string::npos) << line;
    for (const std::string& part : parts)
      EXPECT_NE(line.find(part), std::string::npos) << "no " << part << " in " << line;
  }
}

// Until nothing is new any more: a rank's line comes some moments after another's.
void linger() { std::this_thread::sleep_for(milliseconds(1'500)); }

TEST_P(Stalls, NameTheRankThatHasNotCome) {
  Lines lines;
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        int value = 1;
        communicator.barrier();
        if (communicator.rank() == 2) linger();
        communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
        EXPECT_EQ(value, 3);
      },
      warning("0.6"));
  expect_lines(lines.take(), "all_reduce i32×1 sum #2 of \"dp\": ", 2, 8,
               {"rank 2 (", "has made no call since #1", "ranks 0,1 wait for "});
}

TEST_P(Stalls, AreRepeatedEachTimeTheWaitHasDoubled) {
  Lines lines;
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        communicator.barrier();
        if (communicator.rank() == 2) std::this_thread::sleep_for(milliseconds(4'500));
        communicator.barrier();
      },
      warning("0.3"));
  // After 0.3, 0.6, 1.2, 2.4 s on two ranks; the last one may come too late.
  expect_lines(lines.take(), "barrier #2 of \"dp\": ", 4, 14, {"rank 2 ("});
}

TEST_P(Stalls, AreNotReportedWhereTheyAreShortOrNobodyWantsToKnow) {
  for (const char* after : {"0", "30"}) {
    Lines lines;
    expect_ranks(
        kRanks,
        [](Communicator& communicator) {
          communicator.barrier();
          if (communicator.rank() == 2) std::this_thread::sleep_for(milliseconds(700));
          communicator.barrier();
        },
        warning(after));
    EXPECT_EQ(lines.take(), "");
  }
}

TEST_P(Stalls, OfAReceiveNameTheSenderThatDoesNotSend) {
  Lines lines;
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        int value = 0;
        communicator.barrier();
        if (communicator.rank() == 0) communicator.recv(&value, 1, DataType::kI32, 2, 4);
        if (communicator.rank() == 2) {
          linger();
          communicator.send(&value, 1, DataType::kI32, 0, 4);
        }
        communicator.barrier();
      },
      warning("0.6"));
  // Rank 1, which waits in the barrier, may have asked.
  expect_lines(lines.take(), " of \"dp\": ", 1, 8,
               {"rank 2 (", "has made no call since #1", "rank 0 waits for rank 2"});
}

TEST_P(Stalls, OfACollectiveFindWhoIsInASendInstead) {
  Lines lines;
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        int value = 0;
        communicator.barrier();
        if (communicator.rank() == 1) {
          communicator.send(&value, 1, DataType::kI32, 2, 4);  // rank 2 receives it late
        } else if (communicator.rank() == 2) {
          linger();
          communicator.recv(&value, 1, DataType::kI32, 1, 4);
        }
        communicator.barrier();
      },
      warning("0.6"));
  expect_lines(lines.take(), " of \"dp\": ", 1, 8,
               {"rank 2 (", "has made no call since #1", "rank 1 waits for rank 2"});
}

TEST_P(Stalls, OnAStreamAreReportedTheSame) {
  Lines lines;
  expect_ranks(
      kRanks,
      [](Communicator& communicator) {
        int value = 1;
        HostStream stream;
        communicator.barrier();
        if (communicator.rank() == 0) linger();
        communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, stream);
        Work last = communicator.all_reduce(&value, &value, 1, DataType::kI32, kMax, stream);
        if (communicator.rank() == 1) linger();  // nobody waits in the call
        last.wait();
      },
      warning("0.6"));
  expect_lines(lines.take(), "all_reduce i32×1 sum #2 of \"dp\": ", 2, 8,
               {"rank 0 (", "has made no call since #1", "ranks 1,2 wait for "});
}

class TimedOut : public OnHosts {
 protected:
  // What the error says after the call of the rank that got it.
  static std::string reason_in(const std::string& text) {
    const std::size_t at = text.find("has not ended within");
    return at == std::string::npos ? "no reason in: " + text : text.substr(at, text.find(" [while") - at);
  }
  static void expect_same(const std::vector<RankEnd>& ends, const std::vector<int>& ranks, int blamed,
                          const std::vector<std::string>& parts) {
    std::string first;
    for (const int r : ranks) {
      const RankEnd& end = ends[static_cast<std::size_t>(r)];
      ASSERT_TRUE(end.error) << "rank " << r << ": " << end.text;
      EXPECT_EQ(end.error->code(), ErrorCode::kTimeout) << end.text;
      EXPECT_EQ(end.error->peer(), blamed) << end.text;
      for (const std::string& part : parts) {
        EXPECT_NE(end.text.find(part), std::string::npos) << "no " << part << " in: " << end.text;
      }
      if (first.empty()) first = reason_in(end.text);
      EXPECT_EQ(reason_in(end.text), first);
    }
  }
};
TUTTI_ON_ALL_HOSTS(TimedOut);

TEST_P(TimedOut, CallsHaveTheSameReasonOnAllRanks) {
  for (const bool own_limit : {false, true}) {
    std::atomic<int> failed{0};
    RankSetup limited = setup();
    if (!own_limit) limited.options.timeout = milliseconds(100);
    const auto ends = run_ranks(
        kRanks,
        [&](Communicator& communicator) {
          communicator.barrier(Stream().within(seconds(60)));
          if (communicator.rank() == 1) {
            while (failed.load() < kRanks - 1) std::this_thread::sleep_for(milliseconds(1));
          }
          try {
            communicator.barrier(own_limit ? Stream().within(milliseconds(100)) : Stream());
          } catch (const Error&) {
            ++failed;
            throw;
          }
        },
        limited);
    expect_same(ends, {0, 1, 2}, 1, {"barrier #2 of \"dp\"", "100 ms", "rank 1 (", "has made no call since #1"});
  }
}

TEST_P(TimedOut, OneLimitIsEnoughForAll) {
  const auto ends = run_ranks(
      kRanks,
      [&](Communicator& communicator) {
        int value = 0;
        communicator.barrier();
        // Nobody sends.
        communicator.recv(&value, 1, DataType::kI32, (communicator.rank() + 1) % 3, 4,
                          communicator.rank() == 2 ? Stream().within(milliseconds(100)) : Stream());
      },
      setup());
  expect_same(ends, {0, 1, 2}, -1, {"recv i32×1 from 0 tag 4", "in a circle", "waits for rank 0"});
}

TEST_P(TimedOut, CallsOfASplitFailItsMembersOnly) {
  std::atomic<int> failed{0};
  const auto ends = run_ranks(
      kRanks,
      [&](Communicator& communicator) {
        Communicator part = *communicator.split(communicator.rank() == 0 ? 0 : 1, 0);
        if (communicator.rank() > 0) {
          part.barrier();
          if (part.rank() == 0) {
            while (failed.load() == 0) std::this_thread::sleep_for(milliseconds(1));
          }
          try {
            // The message of the other may be here before the news that its call has failed.
            while (true) part.barrier(Stream().within(milliseconds(100)));
          } catch (const Error& error) {
            ++failed;
            EXPECT_EQ(error.code(), ErrorCode::kTimeout) << error.what();
            EXPECT_EQ(error.peer(), 0) << error.what();
            EXPECT_NE(std::string(error.what()).find("rank 0 ("), std::string::npos) << error.what();
            EXPECT_NE(std::string(error.what()).find("has made no call since #1"), std::string::npos) << error.what();
          }
        }
        communicator.barrier();
      },
      setup());
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST_P(TimedOut, CallsAreNamedOnce) {
  const auto ends = run_ranks(
      kRanks,
      [](Communicator& communicator) {
        int value = 0;
        communicator.recv(&value, 1, DataType::kI32, (communicator.rank() + 1) % kRanks, 4,
                          Stream().within(milliseconds(50)));
      },
      setup());
  // On the rank whose limit it was; the message of another begins with a call of its own.
  EXPECT_TRUE(std::ranges::any_of(ends, [](const RankEnd& end) {
    const std::string reason = end.text.substr(end.text.find(": ") + 2);  // behind the code
    return reason.find("has not ended within") < reason.find(": ");
  })) << ends[0].text;
}

TEST(TimedOutAlone, ARankIsToldAtOnce) {
  const auto ends = run_ranks(1, [](Communicator& communicator) {
    int value = 0;
    communicator.recv(&value, 1, DataType::kI32, 0, 4, Stream().within(milliseconds(50)));
  });
  ASSERT_TRUE(ends[0].error) << ends[0].text;
  EXPECT_EQ(ends[0].error->code(), ErrorCode::kTimeout) << ends[0].text;
}

}  // namespace
}  // namespace tutti
