#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "perf/chart.h"
#include "perf/format.h"
#include "perf/json_report.h"
#include "perf/plot.h"
#include "perf/statistics.h"
#include "perf/svg.h"
#include "perf/table.h"

namespace tutti::perf {
namespace {

std::string printed(const Options& options, const std::function<void(Table&)>& print) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  Table table(file, options, "all_reduce_perf");
  print(table);
  std::fclose(file);
  std::string result(text, size);
  std::free(text);
  return result;
}

Row example() {
  Row row;
  row.bytes = 1048576;
  row.count = 262144;
  row.op = "sum";
  row.plan = "two_shot over shm";
  row.out_of_place.time = 123.456;
  row.out_of_place.algorithm_bandwidth = 8.4935;
  row.out_of_place.bus_bandwidth = 8.4935;
  row.out_of_place.wrong = 0;
  row.out_of_place.single_calls = {3, 1, 2};
  row.in_place = row.out_of_place;
  row.in_place.wrong.reset();
  return row;
}

TEST(Columns, AreFilledWithTheMostDecimalsThatFit) {
  EXPECT_EQ(fit(1.234, 7), "   1.23");
  EXPECT_EQ(fit(1234.5, 7), "1234.50");
  EXPECT_EQ(fit(12345.67, 7), "12345.7");
  EXPECT_EQ(fit(1234567, 7), "1234567");
  EXPECT_EQ(fit(12345678, 7), "1.2e+07");
  EXPECT_EQ(fit(12345678, 6), " 1e+07");
  EXPECT_EQ(fit(9999.999, 7), "10000.0") << "rounding must not burst the column";
}

TEST(Columns, RowsAreThoseOfNcclTests) {
  const std::string text = printed({}, [](Table& table) {
    table.begin_row(example());
    table.mode(example().out_of_place, false);
    table.mode(example().in_place, true);
    table.end_row(example());
  });
  EXPECT_EQ(text,
            "     1048576        262144     float     sum      -1"
            "   123.46    8.49    8.49       0   123.46    8.49    8.49    N/A\n");
}

TEST(Columns, HeadsAreThoseOfNcclTests) {
  EXPECT_EQ(
      printed({}, [](Table& table) { table.column_heads(); }),
      "#\n"
      "#                                                              out-of-place                       in-place  "
      "        \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   "
      "busbw  #wrong \n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
      "(GB/s)         \n");
}

TEST(Columns, MismatchesAreExplainedBelowTheirRow) {
  Row row = example();
  row.out_of_place.mismatches = {{Mismatch::Kind::kStale, Phase::kSingle, 12, 3, 17, 0x40400000, 0x40800000}};
  EXPECT_EQ(printed({}, [&](Table& table) { table.end_row(row); }),
            "\n# wrong, out-of-place: single call 12, rank 3, element 17: got 3 (0x40400000), want 4 (0x40800000): "
            "stale, the previous call's value\n");
}

TEST(Header, NamesRanksAndTheRun) {
  Options options;
  options.step_factor = 2;
  const std::string text = printed(options, [](Table& table) { table.starting({"notice"}, {{1, 77, 1, "hostB"}}); });
  EXPECT_NE(text.find("# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 33554432 maxBytes "
                      "33554432 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 "
                      "unalign: 0\n# notice\n#\n# Using devices\n"),
            std::string::npos);
  EXPECT_NE(text.find("#  Rank  1 Group  0 Pid     77 on      hostB device  1 [0000:00:00] cpu\n"), std::string::npos);
}

TEST(Footer, HasVerdictAndAverage) {
  Totals totals;
  totals.add(example().out_of_place);
  totals.add(example().in_place);
  const std::string good = printed({}, [&](Table& table) { table.concluded({example()}, totals, -1, ""); });
  EXPECT_EQ(good.find("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 8.4935 \n"), 0u);
  EXPECT_NE(good.find("#\n# Collective test concluded: all_reduce_perf\n#\n\n"), std::string::npos);
  totals.wrong = 3;
  const std::string bad = printed({}, [&](Table& table) { table.concluded({example()}, totals, 100, ""); });
  EXPECT_NE(bad.find("# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 8.4935 FAILED\n"), std::string::npos);
}

TEST(Json, HasTheKeysOfNcclTestsAndPercentiles) {
  Options options;
  Totals totals;
  totals.add(example().out_of_place);
  const JsonReport report{options, {"all_reduce_perf", "-b", "8"}, "start", "end", {{0, 5, 0, "host"}}, {example()},
                          totals};
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["args"][1], "-b");
  EXPECT_EQ(json["config"]["devices"][0]["hostname"], "host");
  EXPECT_EQ(json["config"]["step_bytes"], 1 << 20);
  const auto& result = json["results"][0];
  EXPECT_EQ(result["size"], 1048576);
  EXPECT_EQ(result["type"], "float");
  EXPECT_EQ(result["root"], "-1");
  EXPECT_EQ(result["out_of_place"]["time_p50"], 2);
  EXPECT_EQ(result["out_of_place"]["algorithm"], "two_shot");
  EXPECT_EQ(result["out_of_place"]["transport"], "shm");
  EXPECT_TRUE(result["in_place"]["nwrong"].is_null());
  EXPECT_EQ(json["out_of_bounds"]["okay"], "true");
  EXPECT_EQ(json["average_bus_bandwidth"]["okay"], "unchecked");
}

TEST(Json, KeepsSecretsToItself) {
  ::setenv("TUTTI_SECRET", "hush", 1);
  ::setenv("TUTTI_COMM_ID", "hush", 1);
  ::setenv("TUTTI_ALGO", "ring", 1);
  const std::string text = to_json({Options(), {"p"}, "", "", {}, {}, {}});
  EXPECT_EQ(text.find("hush"), std::string::npos);
  EXPECT_NE(text.find("TUTTI_ALGO=ring"), std::string::npos);
  for (const char* name : {"TUTTI_SECRET", "TUTTI_COMM_ID", "TUTTI_ALGO"}) ::unsetenv(name);
}

TEST(Json, FilesAreNeverOverwritten) {
  const std::string path = testing::TempDir() + "tutti_perf_output_test.json";
  std::string error;
  const std::string first = create_new_file(path, error);
  const std::string second = create_new_file(path, error);
  EXPECT_NE(first, second);
  EXPECT_EQ(second.find(path), 0u);
  std::remove(first.c_str());
  std::remove(second.c_str());
  EXPECT_EQ(create_new_file("/nowhere/at/all", error), "");
  EXPECT_NE(error.find("No such file"), std::string::npos);
}

TEST(Statistics, PercentilesAreValuesThatOccurred) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(percentile(values, 5), 1);
  EXPECT_EQ(percentile(values, 50), 3);
  EXPECT_EQ(percentile(values, 99), 5);
  EXPECT_EQ(percentile({}, 50), 0);
  const Summary summary = summarize({1, 3});
  EXPECT_EQ(summary.average, 2);
  EXPECT_EQ(summary.deviation, 1);
  EXPECT_EQ(summary.variation_percent(), 50);
}

TEST(Svg, EscapesText) {
  Svg svg(10, 20);
  svg.text({1, 2}, "a < b & \"c\"", 12);
  EXPECT_NE(svg.str().find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(svg.str().find("<svg "), 0u);
  EXPECT_NE(svg.str().find("</svg>"), std::string::npos);
}

TEST(Chart, DrawsOneLineASeriesAndLeavesOutWhatHasNoLogarithm) {
  Svg svg(400, 300);
  draw_log_chart(svg, {0, 0}, 400, 300, "title", {"x", Unit::kBytes}, {"y"},
                 {{"one", {{8, 1}, {1024, 10}, {0, 5}}}, {"two", {{8, 0}, {16, 2}}, true}});
  const std::string text = svg.str();
  std::size_t circles = 0;
  for (std::size_t at = text.find("<circle"); at != std::string::npos; at = text.find("<circle", at + 1)) ++circles;
  EXPECT_EQ(circles, 3u);
  EXPECT_NE(text.find(">1K<"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
}

TEST(Chart, NothingToDrawIsStillAPicture) {
  EXPECT_EQ(plot("empty", {}).find("nan"), std::string::npos);
  EXPECT_NE(plot("all_reduce_perf", {example()}).find("float sum in-place"), std::string::npos);
}

}  // namespace
}  // namespace tutti::perf
