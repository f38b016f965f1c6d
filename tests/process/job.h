#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/namespaces.h"

namespace tutti {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr seconds kPatience{30};  // for anything that must end; far more than it takes
inline constexpr const char* kMeetingPort = "29500";

// The program of worker.cc with these actions.
std::vector<std::string> worker(std::vector<std::string> actions);

using Environment = std::map<std::string, std::string>;
// A rank that is told by hand who it is; meets the others at 127.0.0.1 and the fixed port.
Environment by_hand(int rank, int ranks, const std::string& address = "127.0.0.1");

// The ranks of one communicator as processes of worker.cc, started by hand.
class Job {
 public:
  // adapt: what one rank has otherwise; called before the rank starts.
  using Adapt = std::function<void(int rank, Program&)>;
  Job(int ranks, const std::vector<std::string>& actions, const Namespace* place, const Environment& environment = {},
      const Adapt& adapt = {});

  int ranks() const { return static_cast<int>(processes_.size()); }
  ChildProcess& rank(int r) { return *processes_[static_cast<std::size_t>(r)]; }
  // Waits until every rank has written such a line; a test failure that shows what a rank wrote instead.
  bool all_said(const std::string& beginning, milliseconds patience = kPatience);
  // Waits until every rank but these has ended, with this status; a test failure otherwise.
  bool all_ended(int code, const std::vector<int>& but = {});

 private:
  std::vector<std::unique_ptr<ChildProcess>> processes_;
};

// What a rank said about the error that ended it.
struct ToldError {
  long long at_ms = -1;  // -1: it told none
  std::string code;
  int peer = -1;
  std::string message;
};
ToldError told_error(const ChildProcess& process);
// How many lines begin so.
int count_lines(const std::string& text, const std::string& beginning);
bool contains(const std::string& text, const std::string& part);
// On the clock of the error lines.
long long now_ms();

// Tests whose ranks run in a network and a /dev/shm of their own, in which nobody else listens. At the end, nothing may
// be left there: no process, no socket, no shared memory.
class ProcessTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const Namespace* place() const { return sandbox_.get(); }
  // A directory of this test, gone afterwards.
  const std::string& directory() const { return directory_; }

  std::unique_ptr<Namespace> sandbox_;
  std::string directory_;
};

}  // namespace tutti
