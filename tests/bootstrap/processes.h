#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "meeting.h"

namespace tutti {

// Ranks 1 … n-1 as processes, forked before this one has any thread; rank 0 is the test. Each child runs `work` once it
// knows the id, and ends without running anything else of the test.
class RankProcesses {
 public:
  using Work = std::function<void(int rank, const UniqueId& id)>;

  RankProcesses(int ranks, const Work& work) {
    for (int rank = 1; rank < ranks; ++rank) {
      int pipe_ends[2];
      EXPECT_EQ(::pipe(pipe_ends), 0);
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::close(pipe_ends[1]);
        for (const int other : ids_) ::close(other);
        char text[2048] = {};
        if (::read(pipe_ends[0], text, sizeof text - 1) <= 0) ::_exit(1);
        work(rank, UniqueId::parse(text));
        ::_exit(0);
      }
      ::close(pipe_ends[0]);
      pids_.push_back(pid);
      ids_.push_back(pipe_ends[1]);
    }
    id_ = UniqueId::create();
    for (const int pipe_end : ids_) {
      EXPECT_GT(::write(pipe_end, id_.to_text().data(), id_.to_text().size()), 0);
      ::close(pipe_end);
    }
  }
  ~RankProcesses() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      int status = 0;
      ::waitpid(pid, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) || WTERMSIG(status) == SIGKILL) << "a rank crashed, signal " << WTERMSIG(status);
    }
  }

  const UniqueId& id() const { return id_; }
  pid_t pid(int rank) const { return pids_.at(static_cast<std::size_t>(rank) - 1); }
  void send(int rank, int signal) const { ::kill(pid(rank), signal); }

 private:
  std::vector<pid_t> pids_;
  std::vector<int> ids_;
  UniqueId id_;
};

}  // namespace tutti
