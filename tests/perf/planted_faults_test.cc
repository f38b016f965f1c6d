// Whole runs of the harness in this process, ranks as threads, with collectives that go wrong on purpose.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "perf/collective.h"

namespace tutti::perf {
namespace {

struct Outcome {
  int code;
  std::string text;
};

Collective all_reduce(void (*run)(const Call&)) {
  return {.title = "AllReduce",
          .plan_name = "all_reduce",
          .reduces = true,
          .shape = whole,
          .expected = [](const Shape& shape, int, int, int) -> std::vector<Segment> {
            return {{0, shape.recv, kReduction, 0}};
          },
          .run = run,
          .bus_factor = factor_one};
}

int run_program(const Collective& collective, std::vector<std::string> arguments = {}) {
  std::vector<std::string> all = {"all_reduce_perf", "-t", "2", "-b", "256", "-e", "256", "-n", "4", "--single", "3"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& argument : all) argv.push_back(argument.data());
  return run(static_cast<int>(argv.size()), argv.data(), collective);
}

Outcome outcome(const Collective& collective, const std::vector<std::string>& arguments = {}) {
  testing::internal::CaptureStdout();
  const int code = run_program(collective, arguments);
  return {code, testing::internal::GetCapturedStdout()};
}

void reduce_rightly(const Call& c) { c.communicator.all_reduce(c.input, c.output, c.count, c.type, c.op); }

std::byte* second_element(const Call& c) { return static_cast<std::byte*>(c.output) + element_size(c.type); }

TEST(PlantedFault, ARightRunPasses) {
  const Outcome right = outcome(all_reduce(reduce_rightly));
  EXPECT_EQ(right.code, 0);
  EXPECT_NE(right.text.find("# Out of bounds values : 0 OK"), std::string::npos);
  EXPECT_EQ(right.text.find("# wrong"), std::string::npos);
}

TEST(PlantedFault, ALostElementIsCountedInEveryCallAndExplained) {
  const Outcome lost = outcome(all_reduce([](const Call& c) {
    reduce_rightly(c);
    if (c.communicator.rank() == 1) std::memset(second_element(c), 0, element_size(c.type));
  }));
  EXPECT_EQ(lost.code, 5);
  EXPECT_NE(lost.text.find("# wrong, out-of-place: check 0, rank 1, element 1: got 0 (0x00000000)"), std::string::npos);
  EXPECT_NE(lost.text.find("zero, never written"), std::string::npos);
  // 1 check, 4 iterations, 3 single calls, out of place and in place.
  EXPECT_NE(lost.text.find("# Out of bounds values : 16 FAILED"), std::string::npos) << lost.text;
}

TEST(PlantedFault, AFaultThatComesOnlyUnderLoadIsFound) {
  const Outcome late = outcome(all_reduce([](const Call& c) {
    static thread_local float previous;
    static thread_local int calls;
    reduce_rightly(c);
    const float now = *static_cast<const float*>(c.output);
    if (c.communicator.rank() == 0 && ++calls == 5) std::memcpy(c.output, &previous, sizeof(previous));
    previous = now;
  }));
  EXPECT_EQ(late.code, 5);
  EXPECT_NE(late.text.find("# wrong, out-of-place: iteration 2, rank 0, element 0"), std::string::npos) << late.text;
  EXPECT_NE(late.text.find("stale, the previous call's value"), std::string::npos);
}

TEST(PlantedFault, AByteBehindTheOutputIsFound) {
  const Outcome outside = outcome(all_reduce([](const Call& c) {
    reduce_rightly(c);
    static_cast<std::byte*>(c.output)[c.count * element_size(c.type)] = std::byte{1};
  }));
  EXPECT_EQ(outside.code, 5);
  EXPECT_NE(outside.text.find("rank 0: bytes after the output were overwritten"), std::string::npos);
}

TEST(PlantedFault, NothingIsCheckedWhenNothingShallBe) {
  const Outcome unchecked = outcome(all_reduce([](const Call&) {}), {"-c", "0"});
  EXPECT_EQ(unchecked.code, 0);
  EXPECT_NE(unchecked.text.find("    N/A"), std::string::npos);
}

TEST(PlantedFault, UntouchedBuffersAreWarnedAbout) {
  const Outcome warm = outcome(all_reduce(reduce_rightly), {"--touch", "0"});
  EXPECT_EQ(warm.code, 0);
  EXPECT_NE(warm.text.find("# WARNING: buffers are not touched"), std::string::npos);
}

TEST(PlantedFault, EveryTypeAndOperationIsRight) {
  for (const char* threads : {"2", "3"}) {
    const Outcome all =
        outcome(all_reduce(reduce_rightly), {"-t", threads, "-d", "all", "-o", "all", "-n", "1", "--single", "0"});
    EXPECT_EQ(all.code, 0) << all.text;
  }
}

TEST(PlantedFaultDeathTest, AHangEndsAndIsNamed) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const Collective hanging = all_reduce([](const Call& c) {
    if (c.communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::minutes(1));
    reduce_rightly(c);
  });
  EXPECT_EXIT(run_program(hanging, {"-T", "1"}), testing::ExitedWithCode(4),
              "timeout: rank . .*has been in AllReduce of 256 B, float sum root -1, out-of-place for more than 1 s");
}

TEST(PlantedFaultDeathTest, AnErrorEndsTheRunWithItsText) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const Collective failing = all_reduce([](const Call& c) {
    if (c.communicator.rank() == 1) throw Error(ErrorCode::kRemote, "rank 7 left");
    reduce_rightly(c);
  });
  EXPECT_EXIT(run_program(failing), testing::ExitedWithCode(3), "error: rank 1: rank 7 left");
}

}  // namespace
}  // namespace tutti::perf
