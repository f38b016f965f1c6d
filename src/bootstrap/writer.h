#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tutti {

// A thread for what may wait for a file system for long, as the control thread must not: it starts with the first work.
// Owned by Process. Any thread. In a forked child, where its thread does not exist, it must not be destroyed.
class Writer {
 public:
  Writer() = default;
  // Runs what it was given before.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Runs it on the thread, after what it was given before. Does not wait. Throws Error(kSystem) when the thread cannot
  // be started.
  void post(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;  // guards what is below
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace tutti
