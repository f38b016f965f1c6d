#include "communicator/callback_thread.h"

#include <pthread.h>

#include <utility>

#include "base/threads.h"

namespace tutti::detail {

void CallbackThread::start(Settle settle) {
  const std::lock_guard lock(mutex_);
  if (started_ || finished_) return;
  if (!bell_) bell_.emplace();
  thread_ = tutti::start_thread("tutti-callback", "for the callbacks of a stream",
                                [this, settle = std::move(settle)] { run(settle); });
  started_ = true;
}

void CallbackThread::push(std::shared_ptr<WorkState> work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
  ring();
}

void CallbackThread::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  ring();
}

void CallbackThread::ring() {
  if (std::exchange(asleep_, false)) bell_->ring();
}

void CallbackThread::run(const Settle& settle) {
  pthread_setname_np(pthread_self(), "tutti-callbacks");
  std::unique_lock lock(mutex_);
  while (true) {
    if (!works_.empty()) {
      std::shared_ptr<WorkState> work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      settle(work);
      work.reset();
      lock.lock();
      continue;
    }
    if (finished_) return;
    asleep_ = true;
    lock.unlock();
    bell_->sleep();
    bell_->silence();
    lock.lock();
    asleep_ = false;
  }
}

void CallbackThread::join() {
  if (thread_.joinable()) thread_.join();
}

void CallbackThread::detach() {
  if (thread_.joinable()) thread_.detach();
}

}  // namespace tutti::detail
