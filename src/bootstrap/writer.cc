#include "bootstrap/writer.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <utility>

#include "tutti/error.h"

namespace tutti {

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Writer::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw Error(ErrorCode::kSystem, std::string("cannot start a thread that writes reports: ") + error.what() +
                                          "; raise the limit of processes (ulimit -u)");
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  queue_.push_back(std::move(work));
  changed_.notify_one();
}

void Writer::run() {
  pthread_setname_np(pthread_self(), "tutti-writer");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace tutti
