#include "bootstrap/event_loop.h"

#include <signal.h>

// One thread runs the loop, and what others post goes through its lock. Fences are what the thread sanitizer lacks.
#define ASIO_DISABLE_FENCED_BLOCK
#define ASIO_STANDALONE
#define ASIO_NO_DEPRECATED
#define ASIO_DISABLE_SERIAL_PORT
#include <asio/io_context.hpp>
#include <asio/posix/basic_stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <exception>
#include <future>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "base/descriptors.h"
#include "base/fork.h"
#include "base/system_error.h"

namespace tutti {

using Executor = asio::io_context::executor_type;

namespace {

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
  std::thread thread;
  const std::uint32_t made_in = fork_generation();
  bool in_this_process() const { return made_in == fork_generation(); }
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {
  {
    // The first timer makes the descriptors that Asio waits on.
    const StandardStreamsTaken taken;
    const asio::steady_timer first(impl_->context);
  }
  // The application's signals are not for this thread: it starts with all of them blocked.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  impl_->thread = std::thread([impl = impl_.get()] {
    pthread_setname_np(pthread_self(), kThreadName);
    impl->context.run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

EventLoop::~EventLoop() {
  if (!impl_->in_this_process()) {
    impl_->thread.detach();
    static_cast<void>(impl_.release());
    return;
  }
  impl_->work.reset();
  // What is still waited for belongs to nobody any more; what was posted runs first.
  asio::post(impl_->context, [this] { impl_->context.stop(); });
  impl_->thread.join();
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
  std::promise<std::optional<Trouble>> done;
  post([&] {
    std::optional<Trouble> trouble;
    try {
      work();
    } catch (const Error& error) {
      trouble = {error.code(), error.what(), error.peer()};
    } catch (const std::exception& error) {
      trouble = {ErrorCode::kSystem, error.what(), Error::kNoPeer};
    }
    done.set_value(std::move(trouble));
  });
  if (const auto trouble = done.get_future().get()) throw Error(trouble->code, trouble->text, trouble->peer);
}

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
