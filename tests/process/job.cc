#include "process/job.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/clock.h"

namespace tutti {

std::vector<std::string> worker(std::vector<std::string> actions) {
  actions.insert(actions.begin(), TUTTI_PROCESS_WORKER);
  return actions;
}

Environment by_hand(int rank, int ranks, const std::string& address) {
  return {{"TUTTI_RANK", std::to_string(rank)},
          {"TUTTI_NRANKS", std::to_string(ranks)},
          {"TUTTI_COMM_ID", address + ":" + kMeetingPort},
          {"TUTTI_SECRET", "known to all ranks of the test"}};
}

Job::Job(int ranks, const std::vector<std::string>& actions, const Namespace* place, const Environment& environment,
         const Adapt& adapt) {
  for (int rank = 0; rank < ranks; ++rank) {
    Program program;
    program.command = worker(actions);
    program.environment = environment;
    program.environment.merge(by_hand(rank, ranks));
    program.place = place;
    if (adapt) adapt(rank, program);
    processes_.push_back(std::make_unique<ChildProcess>(program));
  }
}

bool Job::all_said(const std::string& beginning, milliseconds patience) {
  for (int r = 0; r < ranks(); ++r) {
    if (rank(r).wait_for_line(beginning, patience)) continue;
    ADD_FAILURE() << "rank " << r << " did not say \"" << beginning << "\" but:\n" << rank(r).text();
    return false;
  }
  return true;
}

bool Job::all_ended(int code, const std::vector<int>& but) {
  bool as_expected = true;
  for (int r = 0; r < ranks(); ++r) {
    if (std::count(but.begin(), but.end(), r) > 0) continue;
    if (!rank(r).wait(kPatience)) {
      ADD_FAILURE() << "rank " << r << " hangs after:\n" << rank(r).text();
      return false;
    }
    if (rank(r).code() == code) continue;
    ADD_FAILURE() << "rank " << r << " ended with " << rank(r).code() << ", not " << code << ":\n" << rank(r).text();
    as_expected = false;
  }
  return as_expected;
}

ToldError told_error(const ChildProcess& process) {
  ToldError told;
  const std::string line = process.line("error at=");
  if (line.empty()) return told;
  const std::size_t code = line.find(" code=");
  const std::size_t peer = line.find(" peer=");
  told.at_ms = std::stoll(line);
  told.code = line.substr(code + 6, peer - code - 6);
  told.peer = std::stoi(line.substr(peer + 6));
  told.message = line.substr(line.find(' ', peer + 6) + 1);
  return told;
}

int count_lines(const std::string& text, const std::string& beginning) {
  std::istringstream lines(text);
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) count += line.starts_with(beginning) ? 1 : 0;
  return count;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

long long now_ms() { return std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch()).count(); }

void ProcessTest::SetUp() {
  if (const auto reason = Namespace::refusal()) GTEST_SKIP() << *reason;
  sandbox_ =
      std::make_unique<Namespace>(CLONE_NEWNET | CLONE_NEWNS, "ip link set lo up; mount -t tmpfs tmpfs /dev/shm");
  std::string name = testing::TempDir() + "tutti-process-XXXXXX";
  directory_ = ::mkdtemp(name.data());
}

void ProcessTest::TearDown() {
  if (sandbox_ == nullptr) return;
  // A process that was killed takes a moment to go.
  for (int i = 0; i < 500 && !sandbox_->residents().empty(); ++i) ::usleep(10'000);
  EXPECT_TRUE(sandbox_->residents().empty()) << "a process is left: " << sandbox_->residents().front();
  EXPECT_EQ(sandbox_->output("ls -A /dev/shm"), "") << "files are left in /dev/shm";
  EXPECT_EQ(sandbox_->output("grep -a tutti /proc/net/unix || true"), "") << "sockets are left";
  std::filesystem::remove_all(directory_);
}

}  // namespace tutti
