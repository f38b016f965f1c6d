#include "process/forks.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "process/checks.h"

namespace tutti {
namespace {

constexpr unsigned kPatienceSeconds = 30;

// Runs `work` in a child, which then ends as a program does, static destructors included.
pid_t start_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child > 0) return child;
  ::alarm(kPatienceSeconds);
  int status = 0;
  try {
    work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "in the child: %s\n", error.what());
    status = 1;
  }
  std::exit(status);
}

void expect_success(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  throw std::runtime_error(WIFSIGNALED(status) ? "a child was ended by signal " + std::to_string(WTERMSIG(status))
                                               : "a child found something wrong");
}

void expect_refused(const char* what, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.code() == ErrorCode::kUnsupported && text.find("used after fork") != std::string::npos) return;
    throw std::runtime_error(std::string(what) + " failed otherwise: " + text);
  }
  throw std::runtime_error(std::string(what) + " succeeded in the child");
}

int open_sockets() {
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone).string().starts_with("socket:")) ++sockets;
  }
  return sockets;
}

// Descriptors of the child's own get the numbers of those that the library closed at the fork.
class OwnDescriptors {
 public:
  OwnDescriptors() {
    for (int& fd : fds_) fd = ::open("/dev/null", O_RDONLY);
  }
  void expect_open() const {
    for (const int fd : fds_) {
      if (::fcntl(fd, F_GETFD) < 0) throw std::runtime_error("a descriptor of the child was closed");
    }
  }

 private:
  int fds_[64];
};

void expect_unusable(Communicator& world) {
  if (open_sockets() != 0) throw std::runtime_error("the child has sockets of its parent");
  const OwnDescriptors own;
  float value = 1;
  const int next = (world.rank() + 1) % world.ranks();
  expect_refused("all_reduce", [&] { world.all_reduce(&value, &value, 1, DataType::kF32, kSum); });
  expect_refused("barrier", [&] { world.barrier(); });
  expect_refused("send", [&] { world.send(&value, 1, DataType::kF32, next); });
  expect_refused("recv", [&] { world.recv(&value, 1, DataType::kF32, next); });
  static_cast<void>(world.statistics());
  world.destroy();
  { const Communicator moved = std::move(world); }
  own.expect_open();
}

}  // namespace

void check_forked_child(Communicator& world) {
  constexpr std::size_t kCount = 100'000;
  auto* shared = static_cast<float*>(allocate(kCount * sizeof(float)));
  for (std::size_t i = 0; i < kCount; ++i) shared[i] = static_cast<float>(i);
  std::vector<float> vector(shared, shared + kCount);
  Registration registration = register_memory(vector.data(), kCount * sizeof(float));
  const auto intact = [&] {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (shared[i] != static_cast<float>(i)) throw std::runtime_error("memory of allocate() changed");
      if (vector[i] != static_cast<float>(i)) throw std::runtime_error("registered memory changed");
    }
  };
  expect_success(start_child([&] {
    intact();
    for (float& value : vector) value = -2;
    registration.unregister();
    deallocate(shared);
    auto* own = static_cast<float*>(allocate(kCount * sizeof(float)));
    for (std::size_t i = 0; i < kCount; ++i) own[i] = -1;
    expect_unusable(world);
    deallocate(own);
  }));
  intact();
  registration.unregister();
  intact();
  deallocate(shared);
  FILE* const program = ::popen("true", "r");
  if (program == nullptr || ::pclose(program) != 0) throw std::runtime_error("popen failed");
}

void check_forks_amid_calls(Communicator& world, int forks) {
  // The ranks fork each in their own time: how many calls they make meanwhile must be the same for all.
  constexpr int kCalls = 50;
  for (int i = 0; i < forks; ++i) {
    std::vector<float> data(1 << (i % 4 * 5));
    std::exception_ptr trouble;
    std::thread caller([&] {
      try {
        for (int call = 0; call < kCalls; ++call) check_all_reduce(world, data.data(), data.size(), call);
      } catch (...) {
        trouble = std::current_exception();
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (world.rank() + i)));
    const pid_t child = start_child([&] { expect_unusable(world); });
    caller.join();
    expect_success(child);
    if (trouble) std::rethrow_exception(trouble);
  }
}

void check_communicator_of_children(const std::string& meeting_place) {
  expect_success(start_child([&] {
    ::setenv("TUTTI_COMM_ID", meeting_place.c_str(), 1);
    Communicator own = Communicator::from_environment();
    check_collectives(own, 1000, Memory::kLibrary);
    check_collectives(own, 20'000, Memory::kRegistered);
    own.destroy();
  }));
}

int fork_sleeper(int milliseconds) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ::_exit(0);
  }
  return child;
}

}  // namespace tutti
