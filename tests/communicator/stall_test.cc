// What a rank that waits for long is told, and what a call's limit ends with.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "communicator/ways.h"
#include "support/standard_error.h"
#include "support/together.h"

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

bool has_all(const std::string& line, const std::vector<std::string>& parts) {
  return std::ranges::all_of(parts, [&](const std::string& part) { return line.find(part) != std::string::npos; });
}

// The lines that ranks write because they wait.
class Lines {
 public:
  // What they are about, and whom they blame.
  Lines(std::string subject, std::string blamed) : subject_(std::move(subject)), blamed_(std::move(blamed)) {}

  // Whether so many times all of so many ranks have said the same, with all of these parts. Other lines may differ: who
  // is to wait, too, may come late itself.
  bool say(int ranks, const std::vector<std::string>& parts, std::size_t times = 1) const {
    std::map<std::string, int> said;
    for (const std::string& line : of_calls()) {
      if (has_all(line, parts)) ++said[line.substr(line.find("WARN"))];
    }
    return std::ranges::count_if(said, [=](const auto& text) { return text.second >= ranks; }) >=
           static_cast<std::ptrdiff_t>(times);
  }
  // Until they do; for whoever is waited for. All that was said until then are warnings that blame the right one.
  void await(int ranks, const std::vector<std::string>& parts, std::size_t times = 1) const {
    EXPECT_TRUE(StandardError::await([&] { return say(ranks, parts, times); }))
        << parts.front() << " … in: " << error_.text();
    for (const std::string& line : of_calls()) EXPECT_TRUE(has_all(line, {"WARN", blamed_})) << line;
  }
  void expect_at_most(std::size_t most) const { EXPECT_LE(of_calls().size(), most) << error_.text(); }

 private:
  // The set-up may have been waited for, too.
  std::vector<std::string> of_calls() const {
    std::vector<std::string> lines = error_.lines_with(subject_);
    std::erase_if(lines, [](const std::string& line) { return line.find("the set-up of ") != std::string::npos; });
    return lines;
  }

  StandardError error_;
  const std::string subject_;
  const std::string blamed_;
};

TEST_P(Stalls, NameTheRankThatHasNotCome) {
  const Lines lines("all_reduce i32×1 sum #2 of \"dp\": ", "rank 2 (");
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        int value = 1;
        communicator.barrier();
        if (communicator.rank() == 2) lines.await(2, {"rank 2 (", "has made no call since #1", "ranks 0,1 wait for "});
        communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum);
        EXPECT_EQ(value, 3);
      },
      warning("0.6"));
  lines.expect_at_most(8);
}

TEST_P(Stalls, AreRepeatedEachTimeTheWaitHasDoubled) {
  const Lines lines("barrier #2 of \"dp\": ", "rank 2 (");
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        communicator.barrier();
        if (communicator.rank() == 2) {
          std::this_thread::sleep_for(milliseconds(4'500));
          lines.await(2, {"rank 2 ("}, 2);
        }
        communicator.barrier();
      },
      warning("0.3"));
  // After 0.3, 0.6, 1.2, 2.4 s on two ranks; the last one may come too late.
  lines.expect_at_most(14);
}

TEST_P(Stalls, AreNotReportedWhereTheyAreShortOrNobodyWantsToKnow) {
  for (const char* after : {"0", "30"}) {
    const StandardError error;
    expect_ranks(
        kRanks,
        [](Communicator& communicator) {
          communicator.barrier();
          if (communicator.rank() == 2) std::this_thread::sleep_for(milliseconds(700));
          communicator.barrier();
        },
        warning(after));
    EXPECT_EQ(error.text(), "");
  }
}

TEST_P(Stalls, OfAReceiveNameTheSenderThatDoesNotSend) {
  const Lines lines(" of \"dp\": ", "rank 2 (");  // rank 1, which waits in the barrier, may have asked
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        int value = 0;
        communicator.barrier();
        if (communicator.rank() == 0) communicator.recv(&value, 1, DataType::kI32, 2, 4);
        if (communicator.rank() == 2) {
          lines.await(1, {"rank 2 (", "has made no call since #1", "rank 0 waits for rank 2"});
          communicator.send(&value, 1, DataType::kI32, 0, 4);
        }
        communicator.barrier();
      },
      warning("0.6"));
  lines.expect_at_most(8);
}

TEST_P(Stalls, OfACollectiveFindWhoIsInASendInstead) {
  const Lines lines(" of \"dp\": ", "rank 2 (");
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        int value = 0;
        communicator.barrier();
        if (communicator.rank() == 1) {
          communicator.send(&value, 1, DataType::kI32, 2, 4);  // rank 2 receives it late
        } else if (communicator.rank() == 2) {
          lines.await(1, {"rank 2 (", "has made no call since #1", "rank 1 waits for rank 2"});
          communicator.recv(&value, 1, DataType::kI32, 1, 4);
        }
        communicator.barrier();
      },
      warning("0.6"));
  lines.expect_at_most(8);
}

TEST_P(Stalls, OnAStreamAreReportedTheSame) {
  const Lines lines("all_reduce i32×1 sum #2 of \"dp\": ", "rank 0 (");
  expect_ranks(
      kRanks,
      [&](Communicator& communicator) {
        const std::vector<std::string> parts = {"rank 0 (", "has made no call since #1", "ranks 1,2 wait for "};
        int value = 1;
        HostStream stream;
        communicator.barrier();
        if (communicator.rank() == 0) lines.await(2, parts);
        communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum, stream);
        Work last = communicator.all_reduce(&value, &value, 1, DataType::kI32, kMax, stream);
        if (communicator.rank() == 1) {  // nobody waits in the call
          EXPECT_TRUE(StandardError::await([&] { return lines.say(2, parts); }));
        }
        last.wait();
      },
      warning("0.6"));
  lines.expect_at_most(8);
}

// Until it is so; a test that waits longer hangs, and is told so.
template <class Condition>
void until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(milliseconds(1));
}

// The ranks that wait have come before the limit of one of them begins: it would name them, too.
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
    std::atomic<bool> waits{false};
    Together together(kRanks);
    RankSetup limited = setup();
    if (!own_limit) limited.options.timeout = milliseconds(100);
    const auto ends = run_ranks(
        kRanks,
        [&](Communicator& communicator) {
          HostStream stream;
          communicator.barrier(Stream().within(seconds(60)));
          together.wait();  // nobody is in that barrier any more
          if (communicator.rank() == 1) until([&] { return failed.load() == kRanks - 1; });
          if (communicator.rank() == 0) until([&] { return waits.load(); });
          try {
            if (communicator.rank() == 2) {
              const Work work = communicator.barrier(stream.within(seconds(60)));
              until([&] { return work.started() != Work::Time{}; });
              waits = true;
              work.wait();
            } else {
              communicator.barrier(own_limit ? Stream().within(milliseconds(100)) : Stream());
            }
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
  Together together(kRanks);
  const auto ends = run_ranks(
      kRanks,
      [&](Communicator& communicator) {
        HostStream stream;
        int value = 0;
        communicator.barrier();
        together.wait();
        // Nobody sends.
        const auto receive = [&](Stream where) {
          return communicator.recv(&value, 1, DataType::kI32, (communicator.rank() + 1) % kRanks, 4, where);
        };
        if (communicator.rank() == 2) {
          together.wait();
          receive(Stream().within(milliseconds(100)));
        } else {
          const Work waits = receive(stream);
          together.wait();
          waits.wait();
        }
      },
      setup());
  expect_same(ends, {0, 1, 2}, -1, {"recv i32×1 from 0 tag 4", "in a circle", "waits for rank 0"});
}

TEST_P(TimedOut, CallsOfASplitFailItsMembersOnly) {
  std::atomic<int> failed{0};
  Together together(kRanks - 1);
  const auto ends = run_ranks(
      kRanks,
      [&](Communicator& communicator) {
        Communicator part = *communicator.split(communicator.rank() == 0 ? 0 : 1, 0);
        if (communicator.rank() > 0) {
          part.barrier();
          together.wait();
          if (part.rank() == 0) until([&] { return failed.load() > 0; });
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
