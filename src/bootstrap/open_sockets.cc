#include "bootstrap/open_sockets.h"

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace tutti {
namespace {

struct List {
  std::mutex mutex;
  std::set<int> descriptors;
};

List& list() {
  // Never destroyed: sockets may be closed by destructors of other statics.
  static List* const instance = [] {
    auto* made = new List;
    // The lock is held across fork(), so that the child sees the list whole.
    pthread_atfork([] { list().mutex.lock(); }, [] { list().mutex.unlock(); },
                   [] {
                     List& mine = list();
                     for (const int fd : mine.descriptors) ::close(fd);
                     mine.descriptors.clear();
                     mine.mutex.unlock();
                   });
    return made;
  }();
  return *instance;
}

}  // namespace

void OpenSockets::add(int fd) {
  const std::lock_guard lock(list().mutex);
  list().descriptors.insert(fd);
}

void OpenSockets::remove(int fd) {
  const std::lock_guard lock(list().mutex);
  list().descriptors.erase(fd);
}

}  // namespace tutti
