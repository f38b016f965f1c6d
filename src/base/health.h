#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/fork.h"
#include "base/sync.h"
#include "tutti/error.h"

namespace tutti {

// Whether a communicator still works, and what each rank announced when it left. One per communicator and rank;
// shared by its calls, its transports and the control thread. Any thread may call anything.
//
// A communicator fails once and stays failed: the first reason is kept. In a forked child it has failed, whatever it
// was in the parent, and nothing here takes a lock there: the parent's threads may have held it.
class Health {
 public:
  static constexpr std::uint64_t kStillHere = ~std::uint64_t{0};

  explicit Health(int ranks) : left_after_(std::make_unique<Word[]>(static_cast<std::size_t>(ranks))) {
    for (int r = 0; r < ranks; ++r) note(left_after_[static_cast<std::size_t>(r)], kStillHere);
  }

  // One relaxed load: every wait looks at it.
  bool failed() const { return peek(failed_) != 0; }

  // This process was forked from the one that made the communicator.
  bool used_after_fork() const { return peek(failed_) == kUsedAfterFork; }

  // Whom a failure concerns. kThisRank: the other ranks know it, are told by the caller, or need not know.
  enum class Reach { kAllRanks, kThisRank };

  // Returns whether this reason was the first.
  bool fail(ErrorCode code, std::string message, int peer = Error::kNoPeer, Reach reach = Reach::kAllRanks) {
    if (used_after_fork()) return false;
    std::function<void()> hook;
    std::function<void()> tell;
    std::function<void(const Error&)> spread;
    {
      const std::lock_guard lock(mutex_);
      if (reason_) return false;
      reason_.emplace(code, std::move(message), peer);
      publish(failed_, kFailed);  // observed by failed() and then reason()
      hook = std::move(when_failed_);
      tell = tell_;
      if (reach == Reach::kAllRanks) spread = spread_;
    }
    if (spread) spread(reason());
    if (tell) tell();
    if (hook) hook();
    return true;
  }

  // Calls back when it fails: once, in the thread that finds it out, which may hold locks. Must not block.
  void when_failed(std::function<void()> hook) {
    std::unique_lock lock(mutex_);
    if (!reason_) {
      when_failed_ = std::move(hook);
      return;
    }
    lock.unlock();
    hook();
  }

  // Calls back with a failure that concerns all ranks, if it was the first: tells the others. In the thread that finds
  // it out, which may hold locks. Must not block. Before others know of this object.
  void spread_failures(std::function<void(const Error&)> spread) {
    const std::lock_guard lock(mutex_);
    spread_ = std::move(spread);
  }

  // Calls back after every change of all this, in the thread that made it, which may hold locks: wakes whoever sleeps.
  // Before others know of this object. Must not block.
  void tell_changes(std::function<void()> tell) {
    const std::lock_guard lock(mutex_);
    tell_ = std::move(tell);
  }

  // REQUIRES: failed().
  Error reason() const {
    if (used_after_fork()) {
      return {
          ErrorCode::kUnsupported,
          "used after fork: this communicator belongs to the parent process; create a new communicator in the child"};
    }
    const std::lock_guard lock(mutex_);
    return *reason_;
  }

  // A rank said goodbye: it took part in every call up to this sequence number and in none after it.
  void leave(int rank, std::uint64_t last_call) {
    publish(left_after_[static_cast<std::size_t>(rank)], last_call);
    std::function<void()> tell;
    {
      const std::lock_guard lock(mutex_);
      tell = tell_;
    }
    if (tell) tell();
  }
  std::uint64_t left_after(int rank) const { return observe(left_after_[static_cast<std::size_t>(rank)]); }

 private:
  static constexpr std::uint64_t kFailed = 1;
  static constexpr std::uint64_t kUsedAfterFork = 2;

  Word failed_{0};
  const MarkedAtFork in_child_{failed_, kUsedAfterFork};
  mutable std::mutex mutex_;
  std::optional<Error> reason_;
  std::function<void()> when_failed_;
  std::function<void()> tell_;
  std::function<void(const Error&)> spread_;
  std::unique_ptr<Word[]> left_after_;
};

}  // namespace tutti
