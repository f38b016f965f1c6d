#pragma once

#include <chrono>
#include <memory>

#include "tutti/export.h"
#include "tutti/requirements.h"  // first

namespace tutti {

namespace detail {
class StreamEngine;
}

// Where a call runs and how long it may take. The default is the calling thread: the call returns when its result is
// there. A Stream is a small value; the HostStream that it stands for must outlive its calls.
class Stream {
 public:
  constexpr Stream() = default;

  // The same, for calls that fail the communicator with kTimeout, on all ranks, when they have not ended after `limit`:
  // counted from the issue of the call. It wins over Options::timeout. 0: that of the communicator. Throws
  // Error(kInvalidArgument) for a negative one.
  TUTTI_API Stream within(std::chrono::milliseconds limit) const;

  std::chrono::milliseconds limit() const { return limit_; }  // 0: that of the communicator
  detail::StreamEngine* engine() const { return engine_; }    // null: the calling thread

 private:
  friend class HostStream;
  explicit Stream(detail::StreamEngine* engine) : engine_(engine) {}

  detail::StreamEngine* engine_ = nullptr;
  std::chrono::milliseconds limit_{0};
};

// A thread that carries calls on while their callers do something else. Collectives given to it start in the order in
// which they were issued, across all communicators; each send and receive is posted when it is issued, and all of them
// progress together. The calls return a Work at once; their buffers belong to the call until it is done. Calls of one
// communicator run in issue order whatever streams they are given to.
//
// Any thread may issue calls to it. The thread starts with the first call, another one with the first callback
// (Work::then).
class TUTTI_API HostStream {
 public:
  HostStream();
  // Waits until its calls are done, unless it goes in a callback of one of them, or with it: then its threads see them
  // out.
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  operator Stream() const { return Stream(engine_.get()); }  // NOLINT: that is what it is for
  Stream within(std::chrono::milliseconds limit) const { return Stream(*this).within(limit); }

  // Blocks until everything issued so far is done; throws the first error among its calls since the last synchronize.
  void synchronize();

 private:
  std::shared_ptr<detail::StreamEngine> engine_;  // shared with the calls that it has not finished
};

}  // namespace tutti
