#include <gtest/gtest.h>

#include <string>

#include "doctor/report.h"
#include "tutti/error.h"

namespace tutti::doctor {
namespace {

const std::string kReport = R"json({"tutti_report":1,"reason":"failure","communicator":{"name":"dp","id":"00ff"},
"rank":1,"ranks":4,"host":"node1","pid":77,"written":1764460800.25,"written_ns":5,
"state":"failed","failure":{"code":"remote","reason":"rank 3 died","peer":3},
"stall":"rank 3 is late","left":[{"rank":2,"after":9}],"members":["rank 0 (a pid 1)","rank 1 (a pid 2)"],
"statistics":{"collectives":{},"waited_for":[{"rank":3,"calls":2,"seconds":0.5}],"setup_seconds":0.1},
"pending":[],
"operations":[{"sequence":9,"what":"barrier","phase":"failed","signature":"00aa","issued_ns":1,"waits_for":3,"waited_us":2500000},
{"transfer":1,"what":"recv f32×1 from any tag 0","phase":"running","kind":"recv","peer":-1,"tag":0}]
}
)json";

// The error for these bytes; "" when they are a report.
std::string error_of(const std::string& bytes) {
  try {
    parse_report("some.json", bytes);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(std::string(error.what()).starts_with("some.json: ")) << error.what();
    return error.what();
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

TEST(DoctorReport, ReadsWhatARankWrote) {
  const Report report = parse_report("some.json", kReport);
  EXPECT_EQ(report.name, "dp");
  EXPECT_EQ(report.id, "00ff");
  EXPECT_EQ(report.rank, 1);
  EXPECT_EQ(report.ranks, 4);
  EXPECT_EQ(report.pid, 77);
  EXPECT_TRUE(report.failed);
  EXPECT_EQ(report.failure_peer, 3);
  EXPECT_EQ(report.stall, "rank 3 is late");
  EXPECT_EQ(report.left.at(2), 9u);
  EXPECT_EQ(report.members.size(), 2u);
  EXPECT_EQ(report.waited_for.at(3).calls, 2u);
  ASSERT_EQ(report.operations.size(), 2u);
  EXPECT_EQ(report.operations[0].sequence, 9u);
  EXPECT_EQ(report.operations[0].waits_for, 3);
  EXPECT_EQ(report.operations[0].waited_seconds, 2.5);
  EXPECT_EQ(report.operations[1].sequence, 0u);
  EXPECT_EQ(report.operations[1].peer, -1);
  EXPECT_EQ(report.last_issued(), 9u);
}

TEST(DoctorReport, RefusesEveryBeginningOfAFile) {
  for (std::size_t length = 0; length + 2 < kReport.size(); ++length) {
    EXPECT_NE(error_of(kReport.substr(0, length)), "") << length;
  }
}

TEST(DoctorReport, SurvivesEveryChangedByte) {
  for (std::size_t i = 0; i < kReport.size(); ++i) {
    for (const char c : {'\0', '"', '}', ']', '-', '9', '\xff'}) {
      std::string bytes = kReport;
      bytes[i] = c;
      error_of(bytes);
    }
  }
}

TEST(DoctorReport, RefusesWhatIsNoReport) {
  EXPECT_NE(error_of("\x7f"
                     "ELF")
                .find("no whole JSON"),
            std::string::npos);
  EXPECT_NE(error_of("[]").find("no report that tutti wrote"), std::string::npos);
  EXPECT_NE(error_of(R"({"traceEvents":[]})").find("no report that tutti wrote"), std::string::npos);
  EXPECT_NE(error_of(replaced(kReport, "\"tutti_report\":1", "\"tutti_report\":2")).find("format 2"),
            std::string::npos);
}

TEST(DoctorReport, RefusesNumbersOutOfRange) {
  EXPECT_NE(error_of(replaced(kReport, "\"rank\":1", "\"rank\":4")).find("\"rank\""), std::string::npos);
  EXPECT_NE(error_of(replaced(kReport, "\"ranks\":4", "\"ranks\":1e9")).find("\"ranks\""), std::string::npos);
  EXPECT_NE(error_of(replaced(kReport, "\"ranks\":4", "\"ranks\":-1")), "");
  EXPECT_NE(error_of(replaced(kReport, "\"after\":9", "\"after\":18446744073709551615")), "");
  EXPECT_NE(error_of(replaced(kReport, "\"peer\":3", "\"peer\":\"3\"")), "");
  EXPECT_NE(error_of(replaced(kReport, "\"waits_for\":3", "\"waits_for\":77")), "");
}

TEST(DoctorReport, RefusesDeepNestingAndHugeFiles) {
  EXPECT_NE(error_of(std::string(100'000, '[')), "");
  EXPECT_NE(error_of(std::string(100'000, '[') + std::string(100'000, ']')), "");
  EXPECT_NE(error_of(std::string(kLargestFile + 1, ' ')).find("too large"), std::string::npos);
}

TEST(DoctorReport, ShowsNoControlCharacters) {
  const Report report = parse_report("some.json", replaced(kReport, "\"dp\"", R"("a\u001b[31m\nb")"));
  EXPECT_EQ(report.name, "a [31m b");
  EXPECT_EQ(parse_report("some.json", replaced(kReport, "\"dp\"", R"("\u009b31m\u202e")")).name, " 31m ");
}

}  // namespace
}  // namespace tutti::doctor
