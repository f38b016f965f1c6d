// What strangers cost those who meet: ranks as threads of this process meet while another process connects to every
// port that they listen on, and is silent, slow, noisy, or gone again with a reset.
//   hostile_meeting [RANKS [CONNECTIONS_A_SECOND [MEETINGS]]]      64 ranks, 500 a second, 15 of each kind
// Undisturbed and disturbed meetings take turns. Prints the median of both and their ratio.

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "bootstrap/control_plane.h"
#include "bootstrap/process.h"
#include "bootstrap/sockets.h"

namespace {

using tutti::Clock;

// What both processes see.
struct Shared {
  std::atomic<bool> disturbing = false;
  std::atomic<int> connections = 0;  // made so far
  std::array<std::atomic<std::uint16_t>, 1024> ports{};
};

// The ports on which this process listens: the root's and all ranks'.
void note_ports(Shared& shared, int first_descriptor, int last_descriptor) {
  std::size_t count = 0;
  for (int fd = first_descriptor; fd < last_descriptor; ++fd) {
    int listening = 0;
    socklen_t size = sizeof listening;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) continue;
    try {
      const std::uint16_t port = tutti::local_address(fd).port();
      if (port != 0 && count < shared.ports.size()) shared.ports[count++] = port;
    } catch (const tutti::Error&) {
      continue;  // closed meanwhile, or no network socket
    }
  }
  for (; count < shared.ports.size(); ++count) shared.ports[count] = 0;
}

int connect_to(std::uint16_t port) {
  const tutti::SocketAddress address = tutti::SocketAddress::loopback(tutti::Family::kIpv4, port);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && ::connect(fd, address.data(), address.size()) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

// Connects at the rate that was asked for, as long as it is told to.
[[noreturn]] void disturb(Shared& shared, int rate) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::vector<std::string> speeches = {
      "",  // silent
      "GET / HTTP/1.0\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
      std::string(64, '\xff'),
      std::string("\x00\x00\x00\x00\x00\x00\x00\x80", 8),
      "T",                                // the first byte of a rank, and no more
      "TUTTIHS1" + std::string(64, 'x'),  // a hello that makes no sense
      "reset",
  };
  constexpr std::size_t kMostOpen = 400;
  std::deque<int> open;
  const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1.0 / rate));
  Clock::time_point next = Clock::now();
  for (std::size_t number = 0;; ++number) {
    while (!shared.disturbing) {
      for (; !open.empty(); open.pop_front()) ::close(open.front());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      next = Clock::now();
    }
    std::this_thread::sleep_until(next);
    next += interval;
    std::size_t ports = 0;
    while (ports < shared.ports.size() && shared.ports[ports] != 0) ++ports;
    if (ports == 0) continue;
    const int fd = connect_to(shared.ports[number % ports]);
    if (fd < 0) continue;
    ++shared.connections;
    const std::string& speech = speeches[number % speeches.size()];
    if (speech == "reset") {
      const linger now{1, 0};
      ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
      ::close(fd);
      continue;
    }
    static_cast<void>(::send(fd, speech.data(), speech.size(), MSG_NOSIGNAL));
    open.push_back(fd);
    if (open.size() > kMostOpen) {
      ::close(open.front());
      open.pop_front();
    }
  }
}

// Milliseconds until all have met.
double meet(int ranks, Shared& shared) {
  const tutti::UniqueId id = tutti::UniqueId::create();
  const tutti::Config config = tutti::Config().with({{"TUTTI_MEET_TIMEOUT", "60"}});
  std::atomic<bool> met = false;
  std::thread watcher([&] {
    while (!met) {
      note_ports(shared, 3, 3 + 4 * ranks + 64);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const Clock::time_point begin = Clock::now();
  std::vector<std::unique_ptr<tutti::Health>> healths;
  std::vector<std::unique_ptr<tutti::ControlPlane>> planes(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) healths.push_back(std::make_unique<tutti::Health>(ranks));
  const auto play = [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    try {
      planes[at] = tutti::ControlPlane::meet(tutti::membership_from_id(id, rank, ranks), config, *healths[at]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      std::_Exit(EXIT_FAILURE);
    }
  };
  const auto all_ranks = [ranks](const auto& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
  };
  all_ranks(play);
  const double elapsed = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  met = true;
  watcher.join();
  all_ranks([&](int rank) { planes[static_cast<std::size_t>(rank)]->leave(0); });
  return elapsed;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 64;
  const int rate = argc > 2 ? std::atoi(argv[2]) : 500;
  const int meetings = argc > 3 ? std::atoi(argv[3]) : 15;
  if (ranks < 1 || ranks > 1000 || rate < 1 || meetings < 1) {
    std::fprintf(stderr, "usage: hostile_meeting [RANKS [CONNECTIONS_A_SECOND [MEETINGS]]]\n");
    return EXIT_FAILURE;
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  tutti::set_log_level(tutti::LogLevel::kError);
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return EXIT_FAILURE;
  Shared& shared = *new (memory) Shared;
  const pid_t stranger = ::fork();
  if (stranger == 0) disturb(shared, rate);

  std::vector<double> alone, disturbed;
  double disturbed_seconds = 0;
  meet(ranks, shared);  // warms up
  for (int i = 0; i < meetings; ++i) {
    alone.push_back(meet(ranks, shared));
    shared.disturbing = true;
    const Clock::time_point begin = Clock::now();
    disturbed.push_back(meet(ranks, shared));
    shared.disturbing = false;
    disturbed_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
  std::printf(
      "%d ranks met in %.1f ms, and in %.1f ms while %.0f hostile connections a second came: %.2f times "
      "(medians of %d, taking turns)\n",
      ranks, median(alone), median(disturbed), shared.connections / disturbed_seconds,
      median(disturbed) / median(alone), meetings);
  return EXIT_SUCCESS;
}
