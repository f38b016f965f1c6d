// Files that `tutti doctor` is given: cut, damaged, of another program, or made to mislead. Each is refused with its
// name or read; what several say together always comes out as a screen of text that steers no terminal.
#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "doctor/diagnosis.h"
#include "doctor/report.h"
#include "fuzz/input.h"
#include "fuzz/target.h"
#include "tutti/error.h"

namespace tutti::fuzz {
namespace {

constexpr char kNextFile = '\x01';  // no JSON text has it

bool steers_nothing(const std::string& text) {
  std::string lines = text;
  std::ranges::replace(lines, '\n', ' ');
  return printable(lines) == lines;
}

void take(const doctor::Report& report) {
  require(report.ranks >= 1 && report.rank >= 0 && report.rank < report.ranks, "a rank is one of all");
  for (const std::string& text : {report.name, report.id, report.host, report.failure_reason, report.stall}) {
    require(steers_nothing(text) && text.size() <= 4096, "a text is short and without control characters");
  }
  for (const doctor::Operation& operation : report.operations) {
    require(operation.waits_for < report.ranks && operation.peer < report.ranks, "an operation names ranks");
  }
}

}  // namespace

void run(std::span<const std::byte> bytes) {
  std::vector<doctor::Report> reports;
  std::string_view left = text_of(bytes);
  while (!left.empty()) {
    const std::string_view file = left.substr(0, left.find(kNextFile));
    left.remove_prefix(std::min(left.size(), file.size() + 1));
    try {
      doctor::Report report = doctor::parse_report("a file", file);
      take(report);
      const auto same = [&report](const doctor::Report& other) {
        return other.rank == report.rank || other.ranks != report.ranks;
      };
      if (std::ranges::none_of(reports, same)) reports.push_back(std::move(report));
    } catch (const Error& error) {
      const std::string text = error.what();
      require(error.code() == ErrorCode::kInvalidArgument && text.starts_with("a file: "), "a refusal names the file");
    }
  }
  if (reports.empty()) return;
  require(steers_nothing(doctor::to_text(doctor::diagnose(reports))), "a diagnosis steers no terminal");
}

std::vector<Bytes> seeds() {
  const auto report = [](int rank, const std::string& state, const std::string& operations) {
    return R"({"tutti_report":1,"reason":"failure","communicator":{"name":"dp","id":"00ff"},"rank":)" +
           std::to_string(rank) +
           R"(,"ranks":4,"host":"node1","pid":77,"written":1764460800.25,"written_ns":5,"state":")" + state + R"(",)" +
           (state == "failed" ? R"("failure":{"code":"remote","reason":"rank 3 died","peer":3},)" : "") +
           R"("stall":"rank 3 is late","left":[{"rank":2,"after":9}],"members":["rank 0 on a"],)"
           R"("statistics":{"collectives":{},"waited_for":[{"rank":3,"calls":2,"seconds":0.5}],"setup_seconds":0.1},)"
           R"("pending":[],"operations":[)" +
           operations + "]}";
  };
  const std::string failed = report(
      1, "failed",
      R"({"sequence":9,"what":"barrier","phase":"failed","signature":"00aa","issued_ns":1,"waits_for":3,"waited_us":2500000})");
  const std::string waits = report(
      0, "open",
      R"({"sequence":9,"what":"all_reduce","phase":"running","signature":"00ab","issued_ns":1,"waits_for":1,"waited_us":2500000},{"transfer":1,"what":"recv","phase":"running","kind":"recv","peer":-1,"tag":0})");
  std::vector<Bytes> all;
  for (const std::string& text :
       {failed, waits, failed + kNextFile + waits, failed.substr(0, 300), std::string("[[[[[[[[[[[[[[")}) {
    const auto bytes = bytes_of(text);
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

}  // namespace tutti::fuzz
