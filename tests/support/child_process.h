#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/handles.h"

namespace tutti {

class Namespace;

// A program that a test starts: where, with what environment and what it must do before it becomes that program.
struct Program {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment = {};  // on top of the test's own, without any launcher's variables
  const Namespace* place = nullptr;                     // null: where the test runs
  std::function<void()> prepare = {};                   // in the new process, before it becomes the program
};

// A process of a test, in a process group of its own. What it writes to standard output and standard error is kept.
// Killed, with its group, when this object goes, or when the test itself dies. Not for tests with threads of their own.
class ChildProcess {
 public:
  explicit ChildProcess(const Program& program);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const;
  // Returns when none of its threads runs any more.
  void stop() const;
  // False: it still runs after this time.
  bool wait(std::chrono::milliseconds patience);
  // Exit status, or 128 plus the signal that killed it. REQUIRES: wait() returned true.
  int code() const { return code_; }

  // Everything written so far.
  std::string text() const;
  // The first line that begins so, without that beginning; "" if there is none.
  std::string line(std::string_view beginning) const;
  // Waits for such a line. False: it did not come in time, or the process ended without it.
  bool wait_for_line(std::string_view beginning, std::chrono::milliseconds patience);
  // The same for a part of a line.
  bool wait_for_text(std::string_view part, std::chrono::milliseconds patience);

 private:
  bool wait_for_text(std::string_view before, std::string_view part, std::chrono::milliseconds patience);
  bool look();

  UniqueFd output_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int code_ = -1;
};

// Runs a program to its end. Its code is -1 when it had to be killed.
struct Ended {
  int code = -1;
  std::string text;
};
Ended run_program(const Program& program, std::chrono::milliseconds patience = std::chrono::seconds(60));

}  // namespace tutti
