#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bootstrap/dump_signal.h"
#include "bootstrap/event_loop.h"
#include "bootstrap/writer.h"

namespace tutti {

// What a communicator tells of itself to its process.
class Reporter {
 public:
  virtual ~Reporter() = default;
  // Writes down what it knows; somebody has asked the process for it. On the writer's thread.
  virtual void report_now() = 0;

  // Both on the control thread, must not block. Equal on all ranks, and on no other communicator.
  virtual const std::string& id() const = 0;
  struct InCall {
    std::string text;  // "barrier #5 of \"dp\" and waits for rank 3 there"; "": it is in none
    std::uint32_t since_ms = 0;
  };
  virtual InCall in_call() const = 0;
};

// What all communicators of this process share: the control thread, and the writer's. Made by the first that needs it
// and gone, threads and descriptors included, with the last. Any thread may call anything.
class Process {
 public:
  ~Process();

  // Shared: every communicator, and every root that waits for its ranks, holds one; the last to go ends the thread.
  // A forked child gets one of its own. Must not be dropped on one of its threads.
  static std::shared_ptr<Process> get();
  // One without a control thread, for a rank that can have none and has something to say nevertheless: whoever uses its
  // loop drives it. Nobody else gets it.
  static std::shared_ptr<Process> without_thread();

  EventLoop& loop() { return loop_; }
  Writer& writer() { return *writer_; }
  // From now on the reporter is called when this signal comes; 0: when the one comes that others have asked for. The
  // first signal that somebody names is the process's. Throws Error(kSystem).
  void add_reporter(std::weak_ptr<Reporter> reporter, int signal);
  // What this process is in on other communicators than this one's, for longest; "" also where it is several ranks of
  // this one, because nobody knows which of its threads is which. On the control thread.
  std::string in_other_call(const Reporter& reporter) const;

  // False in a forked child, where the control thread does not exist.
  bool is_this() const;

 private:
  explicit Process(EventLoop::Driver driver);

  void ask_reporters();

  std::unique_ptr<Writer> writer_ = std::make_unique<Writer>();
  std::vector<std::weak_ptr<Reporter>> reporters_;  // of the control thread
  EventLoop loop_;
  std::mutex signal_mutex_;  // guards the next
  std::unique_ptr<DumpSignal> signal_;
  const std::uint32_t made_in_;  // fork_generation()
};

}  // namespace tutti
