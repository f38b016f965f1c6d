#pragma once

namespace tutti::detail {

class StreamEngine;
class WorkState;

// In whose callbacks the calling thread is, innermost first: a callback that waited for its own stream would wait for
// ever. Lives on the stack around a callback.
class CallbackScope {
 public:
  CallbackScope(const WorkState& work, StreamEngine* engine) : work_(work), engine_(engine), outer_(innermost_) {
    innermost_ = this;
  }
  ~CallbackScope() { innermost_ = outer_; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  static const CallbackScope* innermost() { return innermost_; }
  const CallbackScope* outer() const { return outer_; }
  const WorkState& work() const { return work_; }
  StreamEngine* engine() const { return engine_; }  // null: of a group without a stream

  static bool is_inside(const WorkState& work) {
    for (const CallbackScope* scope = innermost_; scope != nullptr; scope = scope->outer_) {
      if (&scope->work_ == &work) return true;
    }
    return false;
  }
  static bool is_inside(const StreamEngine& engine) {
    for (const CallbackScope* scope = innermost_; scope != nullptr; scope = scope->outer_) {
      if (scope->engine_ == &engine) return true;
    }
    return false;
  }

 private:
  static inline constinit thread_local const CallbackScope* innermost_ = nullptr;

  const WorkState& work_;
  StreamEngine* const engine_;
  const CallbackScope* const outer_;
};

}  // namespace tutti::detail
