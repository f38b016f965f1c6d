#include "bootstrap/event_loop.h"

// One thread runs the loop, and what others post goes through its lock. Fences are what the thread sanitizer lacks.
#define ASIO_DISABLE_FENCED_BLOCK
#define ASIO_STANDALONE
#define ASIO_NO_DEPRECATED
#define ASIO_DISABLE_SERIAL_PORT
#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/posix/basic_stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "base/descriptors.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/only_errors.h"
#include "base/system_error.h"
#include "base/threads.h"

namespace tutti {

using Executor = asio::io_context::executor_type;

namespace {

using std::chrono::milliseconds;

// Whoever calls while memory is out tries again: it may be a destructor, which has no other way.
constexpr milliseconds kMemoryPause(1);
constexpr milliseconds kMemoryPatience(5000);
constexpr milliseconds kLookUp(50);

// What may hold a callback that in turn holds it.
struct Waiting {
  virtual ~Waiting() = default;
  virtual void forget() = 0;
};

}  // namespace

struct EventLoop::Impl {
  std::set<Waiting*> waiting;  // all timers and watches there are; goes last
  asio::io_context context{1};
  std::optional<asio::executor_work_guard<Executor>> work{context.get_executor()};
  std::map<std::uint64_t, std::function<void(const Error&)>> hooks;
  std::uint64_t hooks_made = 0;
  std::thread thread;  // none: whoever uses the loop drives it
  const std::uint32_t made_in = fork_generation();
  bool in_this_process() const { return made_in == fork_generation(); }

  // Runs handlers, as many as `some` does; none of them ends the process.
  template <class Some>
  void run(Some some) {
    for (;;) {
      try {
        some();
        return;
      } catch (const std::exception& exception) {
        tell_trouble(exception);
      }
    }
  }

  void tell_trouble(const std::exception& exception) {
    for (auto hook = hooks.begin(); hook != hooks.end();) {
      const std::uint64_t number = hook->first;
      try {
        const auto callback = hook->second;  // which may destroy the hook
        const Error error = as_error(exception);
        callback({ErrorCode::kSystem, std::string("its control thread was stopped in its work: ") + error.what()});
      } catch (const std::exception&) {
        // The others are still to be told.
      }
      hook = hooks.upper_bound(number);
    }
  }
};

EventLoop::EventLoop(Driver driver) try : impl_(std::make_unique<Impl>()) {
  {
    // The first timer makes the descriptors that Asio waits on: here, where a refusal is caught.
    const StandardStreamsTaken taken;
    const asio::steady_timer first(impl_->context);
  }
  if (driver == Driver::kCaller) return;
  impl_->thread = start_thread(kThreadName, "that talks to the other ranks (the control thread)",
                               [impl = impl_.get()] { impl->run([impl] { impl->context.run(); }); });
} catch (const std::system_error& error) {
  throw system_error("cannot wait for descriptors (epoll_create1)", error.code().value(),
                     descriptor_advice(error.code().value()));
}

EventLoop::~EventLoop() {
  if (!impl_->in_this_process()) {
    if (impl_->thread.joinable()) impl_->thread.detach();
    static_cast<void>(impl_.release());
    return;
  }
  // What is still waited for belongs to nobody any more; what was posted runs first.
  if (driven_by_caller()) {
    impl_->run([this] { impl_->context.poll(); });
  } else {
    call([this] { impl_->context.stop(); });
    impl_->thread.join();
  }
  // Connections that still lingered keep themselves alive through their callbacks.
  while (!impl_->waiting.empty()) (*impl_->waiting.begin())->forget();
}

void EventLoop::post(std::function<void()> work) {
  if (impl_->in_this_process()) asio::post(impl_->context, std::move(work));
}

void EventLoop::call(const std::function<void()>& work) {
  if (!impl_->in_this_process()) return;
  // An exception object would be shared by two threads, in ways that a thread sanitizer does not see: what it says is
  // handed over, and thrown again.
  struct Trouble {
    ErrorCode code;
    std::string text;
    int peer;
  };
  // Destructors call: nothing here takes memory but asio::post().
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::optional<Trouble> trouble;
  const auto task = [&] {
    try {
      work();
    } catch (const std::exception& exception) {
      const Error error = as_error(exception);
      trouble = {error.code(), error.what(), error.peer()};
    }
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_one();
  };
  if (driven_by_caller()) {
    task();
    impl_->run([this] { impl_->context.poll(); });
  } else {
    const Deadline deadline = Clock::now() + kMemoryPatience;
    for (bool posted = false; !posted;) {
      try {
        asio::post(impl_->context, [&task] { task(); });
        posted = true;
      } catch (const std::bad_alloc&) {
        if (Clock::now() > deadline) throw;
        std::this_thread::sleep_for(kMemoryPause);
      }
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&done] { return done; });
  }
  if (trouble) throw Error(trouble->code, trouble->text, trouble->peer);
}

bool EventLoop::driven_by_caller() const { return !impl_->thread.joinable(); }

bool EventLoop::drive(const std::function<bool()>& over, Deadline deadline) {
  while (!over()) {
    if (Clock::now() >= deadline) return false;
    impl_->run([&] { impl_->context.run_one_until(std::min<Deadline>(deadline, Clock::now() + kLookUp)); });
  }
  return true;
}

void EventLoop::pause(milliseconds time) {
  if (!driven_by_caller()) return std::this_thread::sleep_for(time);
  drive([] { return false; }, Clock::now() + time);
}

TroubleHook::TroubleHook(EventLoop& loop, std::function<void(const Error&)> callback)
    : loop_(loop), number_(loop.impl().hooks_made++) {
  loop.impl().hooks.emplace(number_, std::move(callback));
}

TroubleHook::~TroubleHook() { loop_.impl().hooks.erase(number_); }

struct Timer::State : Waiting {
  explicit State(EventLoop::Impl& loop) : loop(loop), timer(loop.context) { loop.waiting.insert(this); }
  ~State() override { loop.waiting.erase(this); }
  void forget() override {
    loop.waiting.erase(this);
    static_cast<void>(std::exchange(callback, nullptr));
  }

  EventLoop::Impl& loop;
  asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Executor> timer;
  std::function<void()> callback;
  std::uint64_t armed = 0;  // tells an old wait from the present one
};

Timer::Timer(EventLoop& loop) : state_(std::make_shared<State>(loop.impl())) {}
Timer::Timer(Timer&&) noexcept = default;
Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}
Timer::~Timer() { cancel(); }

void Timer::arm(Deadline when, std::function<void()> callback) {
  state_->callback = std::move(callback);
  const std::uint64_t number = ++state_->armed;
  state_->timer.expires_at(when);
  state_->timer.async_wait([state = state_, number](const std::error_code& error) {
    if (error || number != state->armed || !state->callback) return;
    const auto callback = std::exchange(state->callback, nullptr);
    callback();
  });
}

void Timer::cancel() {
  if (!state_) return;
  ++state_->armed;
  state_->callback = nullptr;
  state_->timer.cancel();
}

struct Watch::State : Waiting {
  State(EventLoop::Impl& loop, UniqueFd owned) : loop(loop), fd(std::move(owned)), descriptor(loop.context, fd.get()) {
    loop.waiting.insert(this);
  }
  ~State() override {
    loop.waiting.erase(this);
    close();
  }
  void forget() override {
    loop.waiting.erase(this);
    const auto reading = std::exchange(readable, nullptr);
    const auto writing = std::exchange(writable, nullptr);
  }

  void close() {
    readable = nullptr;
    writable = nullptr;
    if (descriptor.is_open()) descriptor.release();
    fd.reset();
  }

  EventLoop::Impl& loop;
  UniqueFd fd;
  asio::posix::basic_stream_descriptor<Executor> descriptor;
  std::function<void()> readable;
  std::function<void()> writable;
};

Watch::Watch(EventLoop& loop, UniqueFd fd) try : state_(std::make_shared<State>(loop.impl(), std::move(fd))) {
} catch (const std::system_error& error) {
  throw system_error("cannot watch a descriptor", error.code().value(),
                     "the limit of watched descriptors is fs.epoll.max_user_watches");
}
Watch::Watch(Watch&&) noexcept = default;
Watch& Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    if (state_) state_->close();
    state_ = std::move(other.state_);
  }
  return *this;
}
Watch::~Watch() {
  if (state_) state_->close();
}

int Watch::fd() const { return state_->descriptor.native_handle(); }

void Watch::when_readable(std::function<void()> callback) {
  const bool waiting = state_->readable != nullptr;
  state_->readable = std::move(callback);
  if (waiting) return;
  state_->descriptor.async_wait(asio::posix::descriptor_base::wait_read, [state = state_](const std::error_code&) {
    if (const auto callback = std::exchange(state->readable, nullptr)) callback();
  });
}

void Watch::when_writable(std::function<void()> callback) {
  const bool waiting = state_->writable != nullptr;
  state_->writable = std::move(callback);
  if (waiting) return;
  state_->descriptor.async_wait(asio::posix::descriptor_base::wait_write, [state = state_](const std::error_code&) {
    if (const auto callback = std::exchange(state->writable, nullptr)) callback();
  });
}

UniqueFd Watch::release() {
  state_->readable = nullptr;
  state_->writable = nullptr;
  state_->descriptor.release();
  return std::move(state_->fd);
}

}  // namespace tutti
