#include "bootstrap/writer.h"

#include <utility>

#include "base/threads.h"

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
  if (!thread_.joinable()) thread_ = start_thread("tutti-writer", "that writes reports", [this] { run(); });
  queue_.push_back(std::move(work));
  changed_.notify_one();
}

void Writer::run() {
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
