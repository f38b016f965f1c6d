#include "bootstrap/dump_signal.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/descriptors.h"
#include "base/fork.h"
#include "base/sync.h"
#include "base/system_error.h"

namespace tutti {
namespace {

// What the handler needs: a descriptor + 1, and in which process it means something.
Word bell_to_ring{0};
Word rung_in{0};

extern "C" void ring_bell(int signal) {
  const int saved_errno = errno;
  const std::uint64_t bell = observe(bell_to_ring);  // published by the constructor, after rung_in
  if (bell != 0 && peek(rung_in) == fork_generation()) {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(static_cast<int>(bell) - 1, &one, sizeof(one)));
  } else {
    // A forked child: nobody listens here, so it is as if this handler did not exist.
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  errno = saved_errno;
}

bool has_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
         action.sa_handler == handler;
}

}  // namespace

DumpSignal::DumpSignal(EventLoop& loop, int signal, std::function<void()> on_signal)
    : loop_(loop), signal_(signal), on_signal_(std::move(on_signal)) {
  if (!has_handler(signal, SIG_DFL)) return;
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) throw system_error("cannot make an event descriptor for signals", errno, descriptor_advice(errno));
  const int number = bell.get();
  loop_.call([&] {
    bell_ = std::make_unique<Watch>(loop_, std::move(bell));
    listen();
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, signal_);
    pthread_sigmask(SIG_UNBLOCK, &mine, nullptr);
  });
  note(rung_in, fork_generation());
  publish(bell_to_ring, static_cast<std::uint64_t>(number) + 1);  // observed by the handler
  struct sigaction action {};
  action.sa_handler = ring_bell;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

DumpSignal::~DumpSignal() {
  if (bell_ == nullptr) return;
  if (has_handler(signal_, ring_bell)) ::signal(signal_, SIG_DFL);
  publish(bell_to_ring, 0);  // observed by the handler
  loop_.call([this] { bell_.reset(); });
}

void DumpSignal::listen() {
  bell_->when_readable([this] {
    std::uint64_t rings = 0;
    static_cast<void>(!::read(bell_->fd(), &rings, sizeof(rings)));
    on_signal_();
    listen();
  });
}

}  // namespace tutti
