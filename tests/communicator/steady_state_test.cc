// After warm-up, calls on shared memory neither allocate nor enter the kernel. Both are counted in a process of its
// own: the allocator is wrapped, and a system call filter ends the process when a rank makes a call that is no wait.

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "tutti/group.h"
#include "tutti/memory.h"

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
}

namespace {

thread_local bool counting = false;
thread_local int allocations = 0;
thread_local int granted = -1;  // so many allocations before one is refused; negative: none is

bool is_refused() { return granted >= 0 && granted-- == 0; }

}  // namespace

// operator new of the C++ library comes here, too.
extern "C" void* malloc(std::size_t bytes) {
  if (counting) ++allocations;
  return is_refused() ? nullptr : __libc_malloc(bytes);
}
extern "C" void* calloc(std::size_t count, std::size_t bytes) {
  if (counting) ++allocations;
  return __libc_calloc(count, bytes);
}
extern "C" void* realloc(void* memory, std::size_t bytes) {
  if (counting) ++allocations;
  return __libc_realloc(memory, bytes);
}

namespace tutti {
namespace {

constexpr int kCalls = 1000;  // of short ones
constexpr int kLongCalls = 100;
constexpr std::size_t kLong = 1 << 16;  // elements
constexpr int kAllocated = 3;
constexpr int kCalledTheKernel = 4;
constexpr int kWrongResult = 5;

// Ranks that share cores with others are late now and then, and whoever waits for them yields and sleeps: that is
// allowed. Everything else is not.
void forbid_system_calls() {
  constexpr auto kNumber = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber)};
  for (const long allowed :
       {__NR_sched_yield, __NR_membarrier, __NR_futex, __NR_clock_nanosleep, __NR_nanosleep, __NR_exit_group}) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(allowed), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(EXIT_FAILURE);
  }
}

void name_system_call(int, siginfo_t* info, void*) {
  // Only what was prepared before may be used here: the number goes out as the exit status.
  ::_exit(info->si_syscall < 200 ? 40 + info->si_syscall : kCalledTheKernel);
}

using Calls = std::function<void(Communicator&, std::vector<float>&, std::vector<float>&, std::size_t)>;

// Ends the process: 0 when nothing was allocated and no system call made.
[[noreturn]] void run_child(const Calls& call, std::size_t count, bool registered) {
  struct sigaction action {};
  action.sa_sigaction = name_system_call;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSYS, &action, nullptr);
  std::atomic<int> done{0};
  std::atomic<int> allocated{0};
  expect_ranks(2, [&](Communicator& communicator) {
    std::vector<float> input(count, 1), output(2 * count);
    Registration registrations[2];
    if (registered) {
      registrations[0] = register_memory(input.data(), count * sizeof(float));
      registrations[1] = register_memory(output.data(), count * sizeof(float));
    }
    for (int i = 0; i < 100; ++i) call(communicator, input, output, count);
    forbid_system_calls();
    counting = true;
    for (int i = 0; i < (count < kLong ? kCalls : kLongCalls); ++i) call(communicator, input, output, count);
    counting = false;
    allocated += allocations;
    // Whoever is last ends the process: a thread cannot end without the kernel.
    if (++done == 2) ::_exit(allocated == 0 ? 0 : kAllocated);
    while (true) ::sched_yield();
  });
  ::_exit(kWrongResult);
}

// 0, or what happened.
int attempt(const Calls& call, std::size_t count, bool registered = false) {
  const pid_t child = ::fork();
  if (child == 0) run_child(call, count, registered);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

struct Case {
  const char* name;
  Calls call;
};

using Floats = std::vector<float>;

// All that there is. Whoever would run ahead alone and wait for room takes turns.
const Case kCases[] = {
    {"AllReduce", [](Communicator& c, Floats& in, Floats& out,
                     std::size_t n) { c.all_reduce(in.data(), out.data(), n, DataType::kF32, kSum); }},
    {"AllReduceInPlace", [](Communicator& c, Floats& in, Floats&,
                            std::size_t n) { c.all_reduce(in.data(), in.data(), n, DataType::kF32, kMax); }},
    {"Broadcast",
     [](Communicator& c, Floats& in, Floats& out, std::size_t n) {
       for (const int root : {0, 1}) c.broadcast(in.data(), out.data(), n, DataType::kF32, root);
     }},
    {"Reduce",
     [](Communicator& c, Floats& in, Floats& out, std::size_t n) {
       for (const int root : {0, 1}) c.reduce(in.data(), out.data(), n, DataType::kF32, kSum, root);
     }},
    {"AllGather", [](Communicator& c, Floats& in, Floats& out,
                     std::size_t n) { c.all_gather(in.data(), out.data(), n, DataType::kF32); }},
    {"ReduceScatter", [](Communicator& c, Floats& in, Floats& out,
                         std::size_t n) { c.reduce_scatter(in.data(), out.data(), n / 2, DataType::kF32, kSum); }},
    {"AllToAll", [](Communicator& c, Floats& in, Floats& out,
                    std::size_t n) { c.all_to_all(in.data(), out.data(), n / 2, DataType::kF32); }},
    {"Gather",
     [](Communicator& c, Floats& in, Floats& out, std::size_t n) {
       for (const int root : {0, 1}) c.gather(in.data(), out.data(), n, DataType::kF32, root);
     }},
    {"Scatter",
     [](Communicator& c, Floats& in, Floats& out, std::size_t n) {
       for (const int root : {0, 1}) c.scatter(in.data(), out.data(), n / 2, DataType::kF32, root);
     }},
    {"Barrier", [](Communicator& c, Floats&, Floats&, std::size_t) { c.barrier(); }},
    {"SendAndReceive", [](Communicator& c, Floats& in, Floats& out, std::size_t n) {
       for (const int from : {0, 1}) {
         if (c.rank() == from) {
           c.send(in.data(), n, DataType::kF32, 1 - from);
         } else {
           c.recv(out.data(), n, DataType::kF32, from);
         }
       }
     }}};

// Bytes in a line, in a straight line, and in rounds.
class SteadyState : public testing::TestWithParam<std::tuple<std::size_t, Case>> {};
INSTANTIATE_TEST_SUITE_P(Calls, SteadyState,
                         testing::Combine(testing::Values(std::size_t{2}, std::size_t{1024}, std::size_t{1} << 18),
                                          testing::ValuesIn(kCases)),
                         [](const auto& info) {
                           return std::get<1>(info.param).name +
                                  std::to_string(sizeof(float) * std::get<0>(info.param)) + "Bytes";
                         });

TEST_P(SteadyState, NeitherAllocatesNorCallsTheKernel) {
  const auto& [count, what] = GetParam();
  // On a machine so busy that a rank is not run for a second, the others ask the control thread about it.
  int result = attempt(what.call, count);
  for (int again = 0; again < 2 && result != 0; ++again) result = attempt(what.call, count);
  EXPECT_NE(result, kAllocated) << "memory was allocated";
  EXPECT_EQ(result, 0) << "a system call was made (40 + its number), or the process died (1000 + status)";
}

// Otherwise the test above would show nothing.
// Whether registered memory is still there is looked at in every call.
TEST(SteadyStateOfRegisteredBuffers, NeitherAllocatesNorCallsTheKernel) {
  const auto all_reduce = [](Communicator& c, std::vector<float>& in, std::vector<float>& out, std::size_t n) {
    c.all_reduce(in.data(), out.data(), n, DataType::kF32, kSum);
  };
  int result = attempt(all_reduce, 20'000, true);
  for (int again = 0; again < 2 && result != 0; ++again) result = attempt(all_reduce, 20'000, true);
  EXPECT_NE(result, kAllocated) << "memory was allocated";
  EXPECT_EQ(result, 0) << "a system call was made (40 + its number), or the process died (1000 + status)";
}

TEST(SteadyStateFilter, SeesAllocationsAndSystemCalls) {
  const auto allocate_once = [](Communicator& c, std::vector<float>& in, std::vector<float>& out, std::size_t n) {
    c.all_reduce(in.data(), out.data(), n, DataType::kF32, kSum);
    const std::vector<float> copy(out);
    EXPECT_EQ(copy.size(), out.size());
  };
  EXPECT_EQ(attempt(allocate_once, 2), kAllocated);
  const auto ask_the_kernel = [](Communicator&, std::vector<float>&, std::vector<float>&, std::size_t) {
    ::syscall(SYS_getppid);
  };
  EXPECT_EQ(attempt(ask_the_kernel, 2), 40 + SYS_getppid);
}

// One allocation of the issue of a call is refused, each in turn: the call throws, or it is issued. No number is taken
// that nobody passes: what comes behind it is not held up.
TEST(OutOfMemory, LeavesNoTurnThatNobodyPasses_D6) {
  expect_ranks(1, [](Communicator& communicator) {
    HostStream stream;
    communicator.barrier(stream).wait();
    std::uint64_t number = 1;
    for (const bool grouped : {false, true}) {
      int refused = 0;
      for (int n = 0; n <= refused + 1; ++n) {
        bool threw = false;
        Work work;
        try {
          if (grouped) {
            Group group(stream);
            work = communicator.barrier();
            granted = n;
            group.end();
          } else {
            granted = n;
            work = communicator.barrier(stream);
          }
        } catch (const Error& error) {
          threw = true;
          EXPECT_EQ(error.code(), ErrorCode::kSystem) << error.what();
        }
        granted = -1;
        if (threw) {
          refused = n + 1;
          EXPECT_TRUE(work.done()) << "allocation " << n;
        } else {
          EXPECT_EQ(work.sequence(), ++number) << "allocation " << n;
        }
        EXPECT_EQ(communicator.barrier(stream).sequence(), ++number);
        EXPECT_EQ(communicator.barrier().sequence(), ++number);
      }
      EXPECT_GT(refused, 0);
    }
    stream.synchronize();
  });
}

}  // namespace
}  // namespace tutti
