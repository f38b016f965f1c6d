#include "process/refused_rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/handles.h"
#include "process/failing_new.h"
#include "support/descriptors.h"
#include "support/threads.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

constexpr int kPatienceMs = 20'000;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

sigset_t signal_mask() {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

bool same(const sigset_t& a, const sigset_t& b) {
  for (int s = 1; s < NSIG; ++s) {
    if (sigismember(&a, s) != sigismember(&b, s)) return false;
  }
  return true;
}

// Whether the communicator adds up what its ranks give.
bool works(Communicator& world) {
  for (const std::size_t n : {1u, 3000u, 300'000u}) {
    std::vector<int> in(n, world.rank() + 1);
    std::vector<int> out(n);
    world.all_reduce(std::span<const int>(in), std::span<int>(out));
    for (const int x : out) {
      if (x != world.ranks() * (world.ranks() + 1) / 2) return false;
    }
  }
  return true;
}

void tell(RankTale& tale, const Error& error) {
  tale.code = static_cast<int>(error.code());
  tale.peer = error.peer();
  std::strncpy(tale.text, error.what(), sizeof(tale.text) - 1);
}

// In a process that ends afterwards: filters stay.
void play(RankTale& tale, const RankPlan& plan, bool refused) {
  RefusedCalls* const calls = refused && plan.allocation == 0 ? new RefusedCalls(plan.refusal) : nullptr;
  const sigset_t mask = signal_mask();
  const std::size_t descriptors = open_descriptors();
  const std::size_t threads = threads_left(SIZE_MAX);
  const auto end = [&] {
    if (calls != nullptr) calls->end();
    tale.refused = calls != nullptr ? calls->refused() : stop_failing_new();
  };
  try {
    if (calls != nullptr) calls->begin();
    if (refused && plan.allocation > 0) start_failing_new(plan.allocation);
    Communicator world = Communicator::from_environment();
    end();
    if (works(world)) {
      tale.created = true;
    } else {
      tale.wrong = true;
    }
    world.destroy();
  } catch (const Error& error) {
    end();
    tale.created = false;
    tell(tale, error);
  } catch (const std::exception& exception) {
    end();
    tale.wrong = true;
    std::snprintf(tale.text, sizeof(tale.text), "no Error: %s", exception.what());
  }
  tale.ended_at = now_s();
  tale.same_signals = same(mask, signal_mask());
  tale.more_threads = static_cast<int>(threads_left(threads)) - static_cast<int>(threads);
  tale.more_descriptors = static_cast<int>(open_descriptors()) - static_cast<int>(descriptors);
  if (calls != nullptr) {
    for (const auto& [call, count] : calls->counts()) {
      if (static_cast<std::size_t>(call) < tale.counts.size()) tale.counts[static_cast<std::size_t>(call)] = count;
    }
  }
  tale.told = true;
}

struct Child {
  pid_t pid = -1;
  UniqueFd result;
};

Child start(const Namespace& place, int ranks, int rank, const RankPlan& plan) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const pid_t test = ::getpid();
  Child child{::fork(), UniqueFd(ends[0])};
  if (child.pid != 0) {
    ::close(ends[1]);
    return child;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != test) ::_exit(1);
  place.enter();
  ::setenv("TUTTI_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("TUTTI_NRANKS", std::to_string(ranks).c_str(), 1);
  ::setenv("TUTTI_COMM_ID", "127.0.0.1:29500", 1);
  ::setenv("TUTTI_MEET_TIMEOUT", "7", 1);
  ::setenv("TUTTI_SECRET", "a secret of this test", 1);
  RankTale tale;
  const bool refused = rank == plan.rank;
  if (refused && plan.prepare) plan.prepare(rank);
  play(tale, plan, refused);
  static_cast<void>(!::write(ends[1], &tale, sizeof(tale)));
  ::_exit(0);
}

RankTale hear(const Child& child) {
  RankTale tale;
  pollfd wait{child.result.get(), POLLIN, 0};
  const bool spoke = ::poll(&wait, 1, kPatienceMs) > 0;
  if (!spoke) ::kill(child.pid, SIGKILL);
  if (!spoke || ::read(child.result.get(), &tale, sizeof(tale)) != sizeof(tale)) {
    tale = {};
    std::strncpy(tale.text, spoke ? "ended without a word" : "hangs", sizeof(tale.text) - 1);
  }
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  if (WIFSIGNALED(status)) tale.signal = WTERMSIG(status);
  return tale;
}

}  // namespace

std::vector<RankTale> run_ranks_with(const Namespace& place, int ranks, const RankPlan& refused) {
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) children.push_back(start(place, ranks, rank, refused));
  std::vector<RankTale> tales;
  for (const Child& child : children) tales.push_back(hear(child));
  return tales;
}

std::string to_text(const std::vector<RankTale>& tales) {
  std::string text;
  for (std::size_t rank = 0; rank < tales.size(); ++rank) {
    const RankTale& tale = tales[rank];
    text += fmt::format("  rank {}: {}\n", rank,
                        tale.created ? "created"
                        : tale.code >= 0
                            ? fmt::format("{} (peer {}) at {:.3f}: {}", name(static_cast<ErrorCode>(tale.code)),
                                          tale.peer, tale.ended_at, tale.text)
                            : fmt::format("{} (signal {})", tale.text, tale.signal));
  }
  return text;
}

}  // namespace tutti
