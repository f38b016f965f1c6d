#include "perf/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "perf/names.h"

namespace tutti::perf {
namespace {

int parse(std::vector<const char*> arguments, Options& options) {
  arguments.insert(arguments.begin(), "all_reduce_perf");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), options);
}

// What a bad command line is told.
std::string complaint(const std::vector<const char*>& arguments) {
  Options options;
  testing::internal::CaptureStderr();
  EXPECT_EQ(parse(arguments, options), 1);
  return testing::internal::GetCapturedStderr();
}

TEST(CommandLine, DefaultsAreThoseOfNcclTests) {
  Options options;
  ASSERT_EQ(parse({}, options), -1);
  EXPECT_EQ(options.min_bytes, 32u << 20);
  EXPECT_EQ(options.max_bytes, 32u << 20);
  EXPECT_EQ(options.step_bytes, 1u << 20);
  EXPECT_EQ(options.iterations, 20);
  EXPECT_EQ(options.checks, 1);
  EXPECT_EQ(options.average, Average::kAverage);
  EXPECT_EQ(options.types, std::vector<DataType>{DataType::kF32});
  EXPECT_EQ(options.ops, std::vector<ReduceOp::Kind>{ReduceOp::Kind::kSum});
  EXPECT_TRUE(options.touch);
}

TEST(CommandLine, ReadsShortAndLongFlags) {
  Options options;
  ASSERT_EQ(parse({"-b", "8", "--maxbytes", "64M", "-f",      "2", "-n",        "5",       "-r", "all",  "-a", "3",
                   "-t", "4", "-S",         "1",   "--touch", "0", "--buffers", "library", "-d", "half", "-o", "max"},
                  options),
            -1);
  EXPECT_EQ(options.min_bytes, 8u);
  EXPECT_EQ(options.max_bytes, 64u << 20);
  EXPECT_EQ(options.next(8), 16u);
  EXPECT_EQ(options.root, kAllRoots);
  EXPECT_EQ(options.average, Average::kMax);
  EXPECT_EQ(options.threads, 4);
  EXPECT_TRUE(options.timestamps);
  EXPECT_FALSE(options.touch);
  EXPECT_EQ(options.buffers, BufferKind::kLibrary);
  EXPECT_EQ(options.types, std::vector<DataType>{DataType::kF16});
}

TEST(CommandLine, KnowsThreeKindsOfBuffers) {
  for (const BufferKind kind : {BufferKind::kPrivate, BufferKind::kLibrary, BufferKind::kRegistered}) {
    Options options;
    ASSERT_EQ(parse({"--buffers", name(kind)}, options), -1);
    EXPECT_EQ(options.buffers, kind);
  }
  EXPECT_NE(complaint({"--buffers", "huge"}).find("registered"), std::string::npos);
}

TEST(CommandLine, TheLastOfARepeatedFlagCounts) {
  Options options;
  ASSERT_EQ(parse({"-n", "5", "-n", "7"}, options), -1);
  EXPECT_EQ(options.iterations, 7);
}

TEST(CommandLine, FlagsThatNeedAGpuAreNamed) {
  EXPECT_NE(complaint({"-g", "2"}).find("-g,--ngpus: needs a GPU"), std::string::npos);
  EXPECT_NE(complaint({"--cudagraph", "1"}).find("-G,--cudagraph: needs a GPU"), std::string::npos);
  EXPECT_NE(complaint({"-R", "2"}).find("-R,--local_register"), std::string::npos);
  Options options;
  EXPECT_EQ(parse({"-g", "1", "-G", "0"}, options), -1) << "harmless values keep scripts running";
}

TEST(CommandLine, SaysWhatIsWrong) {
  EXPECT_NE(complaint({"-d", "foo"}).find("bfloat16"), std::string::npos) << "lists what there is";
  EXPECT_NE(complaint({"-o", "xor"}).find("bxor"), std::string::npos);
  EXPECT_NE(complaint({"-b", "64M"}).find("-e"), std::string::npos);
  EXPECT_NE(complaint({"-b", "3X"}).find("3X"), std::string::npos);
  EXPECT_NE(complaint({"-i", "0"}).find("-f"), std::string::npos);
  EXPECT_NE(complaint({"-r", "-3"}).find("-r"), std::string::npos);
  EXPECT_NE(complaint({"-n", "0"}).find("--iters"), std::string::npos);
}

TEST(CommandLine, SizesAreBinary) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("12k"), 12u << 10);
  EXPECT_EQ(parse_bytes("2G"), 2ull << 30);
  EXPECT_THROW(parse_bytes(""), std::invalid_argument);
  EXPECT_THROW(parse_bytes("1.5M"), std::invalid_argument);
  EXPECT_THROW(parse_bytes("99999999999999G"), std::invalid_argument);
}

TEST(CommandLine, TypesHaveBothSpellings) {
  EXPECT_EQ(parse_types("bfloat16"), parse_types("bf16"));
  EXPECT_EQ(parse_types("all").size(), static_cast<std::size_t>(kDataTypes));
  EXPECT_EQ(parse_ops("all").size(), static_cast<std::size_t>(ReduceOp::kKinds));
  for (const DataType type : parse_types("all")) EXPECT_EQ(parse_types(nccl_name(type)), std::vector<DataType>{type});
}

}  // namespace
}  // namespace tutti::perf
