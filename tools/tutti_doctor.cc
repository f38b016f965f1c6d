#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/system_error.h"
#include "command.h"
#include "doctor/diagnosis.h"
#include "doctor/report.h"
#include "tutti/error.h"

namespace tutti {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::kInvalidArgument, path + ": " + errno_text(errno));
  std::string bytes(doctor::kLargestFile + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.bad()) throw Error(ErrorCode::kInvalidArgument, path + ": it cannot be read");
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

// By communicator and rank; of several files of one rank, the latest.
using Reports = std::map<std::string, std::map<int, doctor::Report>>;

void add(Reports& reports, doctor::Report report) {
  auto& ranks = reports[report.id];
  if (!ranks.empty() && ranks.begin()->second.ranks != report.ranks) {
    throw Error(ErrorCode::kInvalidArgument, report.file + " and " + ranks.begin()->second.file +
                                                 " are of one communicator, but tell other numbers of ranks");
  }
  const auto known = ranks.find(report.rank);
  if (known == ranks.end() || known->second.written <= report.written) {
    ranks.insert_or_assign(report.rank, std::move(report));
  }
}

int run(std::span<const std::string_view> words) {
  if (words.empty()) throw Error(ErrorCode::kInvalidArgument, "name the files that ranks have written");
  Reports reports;
  bool readable = true;
  for (const std::string_view word : words) {
    try {
      const std::string path(word);
      add(reports, doctor::parse_report(path, read_file(path)));
    } catch (const Error& error) {
      std::fprintf(stderr, "tutti doctor: %s\n", error.what());
      readable = false;
    }
  }
  std::vector<std::vector<doctor::Report>> communicators;
  for (auto& [id, ranks] : reports) {
    auto& list = communicators.emplace_back();
    for (auto& [rank, report] : ranks) list.push_back(std::move(report));
  }
  bool healthy = true;
  for (const doctor::Diagnosis& diagnosis : doctor::diagnose_job(communicators)) {
    std::fputs(doctor::to_text(diagnosis).c_str(), stdout);
    healthy = healthy && diagnosis.healthy();
  }
  return !readable ? 2 : healthy ? 0 : 1;
}

}  // namespace

constexpr Command kDoctorCommand = {"doctor", "FILE…",
                                    "Says what is wrong with a job, from the files that its ranks wrote.", run};

}  // namespace tutti
