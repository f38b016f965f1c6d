#include "base/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <vector>

#include "base/open_sockets.h"

namespace tutti {
namespace {

constexpr int kProcessLocks = 6;

struct Watched {
  std::array<std::mutex, kProcessLocks> process_locks;
  std::mutex mutex;  // taken after all of those; guards what follows
  std::map<Word*, std::uint64_t> marks;
  std::vector<void (*)()> actions;
  std::map<int, std::uint32_t> sockets;         // number, and the generation that opened it
  std::multimap<int, std::uint32_t> inherited;  // closed when this child began; their owners do not know
};

Word generation{0};

Watched& watched();

void before_fork() {
  for (std::mutex& lock : watched().process_locks) lock.lock();
  watched().mutex.lock();
}

void unlock_all() {
  watched().mutex.unlock();
  for (std::mutex& lock : watched().process_locks) lock.unlock();
}

// Nothing here takes memory or a descriptor, which may be refused.
void in_child() {
  Watched& mine = watched();
  add(generation, 1);
  for (const auto& [fd, made_in] : mine.sockets) ::close(fd);
  mine.inherited.merge(mine.sockets);
  for (const auto& [word, value] : mine.marks) note(*word, value);
  for (void (*const action)() : mine.actions) action();
  unlock_all();
}

Watched& watched() {
  // Never destroyed: sockets may be closed by destructors of other statics. Forks are noticed from the first use on.
  static Watched* const instance = [] {
    auto* made = new Watched;
    ::pthread_atfork(before_fork, unlock_all, in_child);
    return made;
  }();
  return *instance;
}

}  // namespace

std::uint32_t fork_generation() { return static_cast<std::uint32_t>(peek(generation)); }

std::mutex& process_lock(ProcessLock which) { return watched().process_locks[static_cast<std::size_t>(which)]; }

void at_every_fork(void (*action)()) {
  const std::lock_guard lock(watched().mutex);
  watched().actions.push_back(action);
}

MarkedAtFork::MarkedAtFork(Word& word, std::uint64_t value) : word_(word) {
  const std::lock_guard lock(watched().mutex);
  watched().marks[&word] = value;
}

MarkedAtFork::~MarkedAtFork() {
  const std::lock_guard lock(watched().mutex);
  watched().marks.erase(&word_);
}

void OpenSockets::lock() { watched().mutex.lock(); }

void OpenSockets::list_and_unlock(int fd) {
  const int error = errno;
  {
    const std::lock_guard lock(watched().mutex, std::adopt_lock);
    try {
      if (fd >= 0) watched().sockets[fd] = fork_generation();
    } catch (...) {
      ::close(fd);
      throw;
    }
  }
  errno = error;
}

void close_descriptor(int fd, std::uint32_t made_in) {
  const std::lock_guard lock(watched().mutex);
  if (made_in != fork_generation()) {
    const auto [first, last] = watched().inherited.equal_range(fd);
    const auto found = std::find_if(first, last, [&](const auto& one) { return one.second == made_in; });
    if (found == last) {
      ::close(fd);
    } else {
      watched().inherited.erase(found);
    }
    return;
  }
  watched().sockets.erase(fd);
  ::close(fd);
}

}  // namespace tutti
