#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/handles.h"
#include "base/system_error.h"
#include "base/utf8.h"
#include "command.h"
#include "doctor/diagnosis.h"
#include "doctor/report.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// Reports often lie where others may write: what is no file must not hold the doctor up.
std::string read_file(const std::string& path) {
  const auto refuse = [&path](const std::string& why) { return Error(ErrorCode::kInvalidArgument, path + ": " + why); };
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) throw refuse(errno_text(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw refuse(errno_text(errno));
  if (!S_ISREG(status.st_mode)) throw refuse("it is no regular file");
  std::string bytes(doctor::kLargestFile + 1, '\0');
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw refuse(errno_text(errno));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  bytes.resize(size);
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

int run(const std::vector<std::string>& files) {
  Reports reports;
  bool readable = true;
  for (const std::string& path : files) {
    try {
      add(reports, doctor::parse_report(printable(path), read_file(path)));
    } catch (const Error& error) {
      std::fprintf(stderr, "tutti doctor: %s\n", printable(error.what()).c_str());
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

std::function<int()> declare(CLI::App& command) {
  const auto files = std::make_shared<std::vector<std::string>>();
  command.add_option("FILE", *files, "what the ranks have written: one file or more")->required();
  return [files] { return run(*files); };
}

}  // namespace

constexpr Command kDoctorCommand = {"doctor", "Says what is wrong with a job, from the files that its ranks wrote",
                                    declare};

}  // namespace tutti
