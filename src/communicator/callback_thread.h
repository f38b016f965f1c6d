#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "communicator/doorbell.h"
#include "communicator/work_state.h"

namespace tutti::detail {

// Settles a stream's Works, one after the other in the order in which they come, in a thread that does nothing else: a
// callback may take long, or wait for whatever it likes, while others carry the stream's calls on. Owned by the stream;
// any thread.
class CallbackThread {
 public:
  using Settle = std::function<void(const std::shared_ptr<WorkState>&)>;

  CallbackThread() = default;
  ~CallbackThread() { detach(); }
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

  // Starts the thread, once. settle: what it does with a Work; keeps this alive. Throws Error(kSystem).
  void start(Settle settle);
  // A Work to settle. REQUIRES: start().
  void push(std::shared_ptr<WorkState> work);
  // No more will come: the thread ends after the last. Never blocks.
  void finish();
  // Not in the thread itself.
  void join();
  void detach();

 private:
  void run(const Settle& settle);
  void ring();

  std::mutex mutex_;  // guards what is below
  std::deque<std::shared_ptr<WorkState>> works_;
  std::optional<Doorbell> bell_;  // there once the thread is
  bool started_ = false;
  bool asleep_ = false;
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace tutti::detail
