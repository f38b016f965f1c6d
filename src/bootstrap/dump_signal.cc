#include "bootstrap/dump_signal.h"

#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "base/descriptors.h"
#include "base/fork.h"
#include "base/sync.h"
#include "base/system_error.h"

namespace tutti {
namespace {

// What the handler needs: above kBellShift a descriptor + 1, 0: none; below it how many handlers are at work, each of
// which has counted itself while it read the descriptor: that stays open until none is left. And in which process all
// this means something.
Word bell_to_ring{0};
Word rung_in{0};
constexpr int kBellShift = 32;
constexpr std::uint64_t kHandlers = (std::uint64_t{1} << kBellShift) - 1;

const DumpSignal* owner = nullptr;  // whose bell it is; ProcessLock::kDumpSignal guards it and the changes of the bell

extern "C" void ring_bell(int signal) {
  const int saved_errno = errno;
  if (peek(rung_in) == fork_generation()) {
    const std::uint64_t bell = take_number(bell_to_ring) >> kBellShift;  // counted by hang_bell()
    const std::uint64_t one = 1;
    if (bell != 0) static_cast<void>(!::write(static_cast<int>(bell) - 1, &one, sizeof(one)));
    add(bell_to_ring, ~std::uint64_t{0});
  } else {
    // A forked child: nobody listens here, so it is as if this handler did not exist.
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  errno = saved_errno;
}

// A descriptor + 1, or 0. When it returns no handler uses the descriptor before.
void hang_bell(std::uint64_t bell) {
  if (peek(rung_in) != fork_generation()) note(bell_to_ring, 0);  // those at work are threads of the parent
  add(bell_to_ring, (bell - (peek(bell_to_ring) >> kBellShift)) << kBellShift);
  note(rung_in, fork_generation());
  while ((observe(bell_to_ring) & kHandlers) != 0) ::sched_yield();  // counted by ring_bell()
}

bool has_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
         action.sa_handler == handler;
}

}  // namespace

DumpSignal::DumpSignal(EventLoop& loop, int signal, std::function<void()> on_signal)
    : loop_(loop), signal_(signal), on_signal_(std::move(on_signal)) {
  // Ours is there already in a forked child, and when the one before is just going.
  if (!has_handler(signal, SIG_DFL) && !has_handler(signal, ring_bell)) return;
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
  const std::lock_guard lock(process_lock(ProcessLock::kDumpSignal));
  hang_bell(static_cast<std::uint64_t>(number) + 1);
  owner = this;
  struct sigaction action {};
  action.sa_handler = ring_bell;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

DumpSignal::~DumpSignal() {
  if (bell_ == nullptr) return;
  {
    const std::lock_guard lock(process_lock(ProcessLock::kDumpSignal));
    const bool replaced = owner != nullptr && owner != this;
    if (!(replaced && owner->signal_ == signal_) && has_handler(signal_, ring_bell)) ::signal(signal_, SIG_DFL);
    if (!replaced) {
      hang_bell(0);
      owner = nullptr;
    }
  }
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
