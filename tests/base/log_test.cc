// The log writes to standard error, whatever that is. It must neither stop its thread nor end the program.
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/handles.h"

namespace tutti {
namespace {

// Standard error is one end of something while this lives; the other end is read here.
class OtherStandardError {
 public:
  OtherStandardError(int reader, int writer) : before_(::dup(STDERR_FILENO)), reader_(reader) {
    ::dup2(writer, STDERR_FILENO);
    ::close(writer);
  }
  ~OtherStandardError() { ::dup2(before_.get(), STDERR_FILENO); }
  OtherStandardError(const OtherStandardError&) = delete;
  OtherStandardError& operator=(const OtherStandardError&) = delete;

  // Writes until nothing more fits, and leaves the flags of the open file as they were.
  static void fill() {
    const int flags = ::fcntl(STDERR_FILENO, F_GETFL);
    ::fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
    const std::string text(512, 'x');
    while (::write(STDERR_FILENO, text.data(), text.size()) > 0) {
    }
    while (::write(STDERR_FILENO, "x", 1) > 0) {
    }
    ::fcntl(STDERR_FILENO, F_SETFL, flags);
  }
  // What can be read at once.
  std::string take() const {
    std::string text;
    std::array<char, 4096> buffer;
    for (pollfd ready{reader_.get(), POLLIN, 0}; ::poll(&ready, 1, 100) == 1;) {
      const ssize_t bytes = ::read(reader_.get(), buffer.data(), buffer.size());
      if (bytes <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
    return text;
  }
  void stop_reading() { reader_.reset(); }

 private:
  UniqueFd before_;
  UniqueFd reader_;
};

std::array<int, 2> pipe_ends() {
  std::array<int, 2> ends{-1, -1};
  EXPECT_EQ(::pipe(ends.data()), 0);
  ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  return ends;
}

std::array<int, 2> socket_ends() {
  std::array<int, 2> ends{-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  return ends;
}

// A terminal: what the reader gets has other line ends.
std::array<int, 2> terminal_ends() {
  const int reader = ::posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_EQ(::grantpt(reader), 0);
  EXPECT_EQ(::unlockpt(reader), 0);
  return {reader, ::open(::ptsname(reader), O_RDWR | O_NOCTTY)};
}

void expect_lost_and_told(std::array<int, 2> ends) {
  OtherStandardError error(ends[0], ends[1]);
  const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  log_warn("before");
  EXPECT_NE(error.take().find(" WARN before"), std::string::npos);
  OtherStandardError::fill();
  const int flags = ::fcntl(STDERR_FILENO, F_GETFL);
  for (int line = 0; line < 100; ++line) log_warn("lost {}", line);
  EXPECT_EQ(::fcntl(STDERR_FILENO, F_GETFL), flags) << "other processes share these flags";
  error.take();
  log_warn("after");
  const std::string text = error.take();
  // A terminal may make room for some of them, whenever the kernel moves what it has on.
  EXPECT_NE(text.find(" lines of this log were lost"), std::string::npos) << text;
  EXPECT_EQ(text.find(" WARN 100 lines of this log were lost") != std::string::npos || is_terminal, true) << text;
  EXPECT_NE(text.find(" WARN after"), std::string::npos) << text;
  log_warn("later");
  const std::string later = error.take();
  EXPECT_EQ(later.find("lost"), std::string::npos) << "said twice: " << later;
}

TEST(Log, IsNotHeldByAFullPipe_F88) { expect_lost_and_told(pipe_ends()); }
TEST(Log, IsNotHeldByAFullSocket_F88) { expect_lost_and_told(socket_ends()); }
TEST(Log, IsNotHeldByATerminalThatStandsStill_F88) { expect_lost_and_told(terminal_ends()); }

TEST(Log, OutlivesItsReader_F88) {
  for (const auto ends : {pipe_ends(), socket_ends()}) {
    OtherStandardError error(ends[0], ends[1]);
    error.stop_reading();
    log_warn("nobody reads this");  // SIGPIPE would end the program
    sigset_t pending;
    ASSERT_EQ(::sigpending(&pending), 0);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  }
}

TEST(Log, LeavesTheProgramsOwnSignalPending_F88) {
  sigset_t one, before, pending;
  sigemptyset(&one);
  sigaddset(&one, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &one, &before);
  ::pthread_kill(::pthread_self(), SIGPIPE);
  {
    const auto ends = pipe_ends();
    OtherStandardError error(ends[0], ends[1]);
    error.stop_reading();
    log_warn("nobody reads this");
  }
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 1);
  const timespec now{0, 0};
  EXPECT_EQ(::sigtimedwait(&one, nullptr, &now), SIGPIPE);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Log, OutlivesALimitOnFileSizesAndAClosedDescriptor_F88) {
  char name[] = "/tmp/tutti-log-XXXXXX";
  const int file = ::mkstemp(name);
  ::unlink(name);
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  {
    OtherStandardError error(::dup(file), file);
    const rlimit few{10, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &few);
    log_warn("too long for that file");  // SIGXFSZ would end the program
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::close(STDERR_FILENO);
    log_warn("to nobody");
  }
}

}  // namespace
}  // namespace tutti
