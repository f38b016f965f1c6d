#include "support/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "support/namespaces.h"

extern char** environ;

namespace tutti {
namespace {

using std::chrono::milliseconds;

bool set_by_launchers(std::string_view variable) {
  static constexpr std::array kPrefixes = {"TUTTI_", "NCCL_",         "OMPI_",  "PMIX_",       "PMI_",
                                           "SLURM_", "MASTER",        "RANK=",  "WORLD_SIZE=", "LOCAL_WORLD_",
                                           "MPI_",   "TORCHELASTIC_", "GTEST_", "HYDRA_",      "LOCAL_RANK="};
  for (const std::string_view prefix : kPrefixes) {
    if (variable.starts_with(prefix)) return true;
  }
  return false;
}

std::vector<std::string> environment_of(const Program& program) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (set_by_launchers(text) || program.environment.count(std::string(text.substr(0, text.find('=')))) > 0) continue;
    result.emplace_back(text);
  }
  for (const auto& [name, value] : program.environment) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

ChildProcess::ChildProcess(const Program& program) : output_(::memfd_create("output", MFD_CLOEXEC)) {
  const pid_t test = ::getpid();
  pid_ = ::fork();
  if (pid_ != 0) {
    ::setpgid(pid_, pid_);
    return;
  }
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != test) ::_exit(127);
  std::vector<std::string> command = program.command;
  std::vector<std::string> environment = environment_of(program);
  // One open file for both, so that what is written to either is appended.
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output_.get(), STDOUT_FILENO);
  ::dup2(output_.get(), STDERR_FILENO);
  if (nothing > STDERR_FILENO) ::close(nothing);
  if (program.place != nullptr) program.place->enter();
  if (program.prepare) program.prepare();
  ::execvpe(command.front().c_str(), pointers(command).data(), pointers(environment).data());
  std::perror(command.front().c_str());
  ::_exit(127);
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  if (!ended_) ::waitpid(pid_, nullptr, 0);
}

void ChildProcess::send(int signal) const {
  if (!ended_) ::kill(pid_, signal);
}

void ChildProcess::stop() const {
  send(SIGSTOP);
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  const auto stopped = [this] {
    std::error_code gone;
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task", gone)) {
      std::ifstream file(task.path() / "stat");
      std::string stat;
      std::getline(file, stat);
      const std::size_t state = stat.rfind(") ");
      if (state != std::string::npos && std::string_view("TtZX").find(stat[state + 2]) == std::string_view::npos) {
        return false;
      }
    }
    return true;
  };
  while (!stopped() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
}

bool ChildProcess::look() {
  int status = 0;
  if (ended_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return ended_;
  ended_ = true;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

bool ChildProcess::wait(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (!look()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

std::string ChildProcess::text() const {
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t bytes = ::pread(output_.get(), buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
    if (bytes <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
}

std::string ChildProcess::line(std::string_view beginning) const {
  const std::string all = text();
  for (std::size_t start = 0; start < all.size();) {
    const std::size_t end = all.find('\n', start);
    if (end == std::string::npos) return "";
    const std::string_view line = std::string_view(all).substr(start, end - start);
    if (line.starts_with(beginning)) return std::string(line.substr(beginning.size()));
    start = end + 1;
  }
  return "";
}

bool ChildProcess::wait_for_line(std::string_view beginning, milliseconds patience) {
  return wait_for_text("\n", beginning, patience);
}

bool ChildProcess::wait_for_text(std::string_view part, milliseconds patience) {
  return wait_for_text("", part, patience);
}

bool ChildProcess::wait_for_text(std::string_view before, std::string_view part, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  const auto found = [&] {
    const std::string all = "\n" + text();
    return all.find(std::string(before) + std::string(part)) != std::string::npos;
  };
  while (!found()) {
    if (look() || Clock::now() > deadline) return found();
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

Ended run_program(const Program& program, milliseconds patience) {
  ChildProcess process(program);
  Ended ended;
  if (process.wait(patience)) ended.code = process.code();
  ended.text = process.text();
  return ended;
}

}  // namespace tutti
