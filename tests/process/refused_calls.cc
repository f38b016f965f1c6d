#include "process/refused_calls.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace tutti {
namespace {

// Refused, they end a thread or a process inside the C library, never come back, or wake nobody of this process; or
// they only give back. The kernel never refuses brk: it answers with the old end.
constexpr int kUnseen[] = {SYS_futex,           SYS_exit,   SYS_exit_group, SYS_rt_sigreturn,   SYS_restart_syscall,
                           SYS_sched_yield,     SYS_munmap, SYS_close,      SYS_rt_sigprocmask, SYS_clock_nanosleep,
                           SYS_set_robust_list, SYS_rseq,   SYS_write,      SYS_epoll_ctl,      SYS_brk};

int install_filter() {
  std::vector<sock_filter> program = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int call : kUnseen) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
}

}  // namespace

RefusedCalls::RefusedCalls(const Refusal& refusal) : refusal_(refusal) {
  thread_ = std::thread([this] { serve(); });  // before the filter, which it must not have
  const int listener = install_filter();
  if (listener < 0) throw std::runtime_error(std::string("no filter for system calls: ") + std::strerror(errno));
  listener_ = listener;
}

// The thread serves this process to its end.
RefusedCalls::~RefusedCalls() { thread_.detach(); }

bool RefusedCalls::possible() {
  seccomp_notif_sizes sizes{};
  return ::syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0;
}

void RefusedCalls::serve() {
  while (listener_ < 0) std::this_thread::yield();
  while (true) {
    seccomp_notif call{};
    seccomp_notif_resp answer{};
    if (::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;
      return;
    }
    answer.id = call.id;
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    const auto number = static_cast<std::size_t>(call.data.nr);
    if (active_ && number < kMostCalls) {
      const int nth = ++counts_[number];
      if (call.data.nr == refusal_.call && (refusal_.nth == 0 || nth == refusal_.nth)) {
        answer.flags = 0;
        answer.error = -refusal_.error;
        refused_ = true;
      }
    }
    ::ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

std::map<int, int> RefusedCalls::counts() const {
  std::map<int, int> result;
  for (std::size_t call = 0; call < kMostCalls; ++call) {
    if (counts_[call] > 0) result[static_cast<int>(call)] = counts_[call];
  }
  return result;
}

}  // namespace tutti
