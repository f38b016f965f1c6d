#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <thread>

namespace tutti {

// One system call that the kernel refuses: the `nth` of its kind, counted from 1; every one when `nth` is 0.
struct Refusal {
  int call = -1;  // none
  int nth = 0;
  int error = 0;
};

// Counts the system calls of the calling thread and of all threads that it starts from now on, and refuses one. A
// filter hands each call to a thread of this object, which lets it through or not. There is no way back: for a process
// that ends soon. Calls without which no thread can run are let through unseen.
class RefusedCalls {
 public:
  explicit RefusedCalls(const Refusal& refusal);
  ~RefusedCalls();
  RefusedCalls(const RefusedCalls&) = delete;
  RefusedCalls& operator=(const RefusedCalls&) = delete;

  // The kernel has what this needs.
  static bool possible();

  // Between these two calls are counted, and refused.
  void begin() { active_ = true; }
  void end() { active_ = false; }

  // By number.
  std::map<int, int> counts() const;
  bool refused() const { return refused_; }

 private:
  static constexpr std::size_t kMostCalls = 1024;
  void serve();

  const Refusal refusal_;
  std::atomic<int> listener_{-1};
  std::atomic<bool> active_{false};
  std::atomic<bool> refused_{false};
  std::array<std::atomic<int>, kMostCalls> counts_{};
  std::thread thread_;
};

}  // namespace tutti
