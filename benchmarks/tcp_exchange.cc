// Two ranks as threads exchange n bytes both ways over TCP on loopback: the transport with its frames, windows, credits
// and epoll against bare loops over non-blocking sockets, all interleaved in the same run. Inputs are rewritten and
// outputs read outside the clock before each exchange. One line a size: microseconds, 5th percentile and median, of the
// best bare loop and of the transport, and the ratio of the medians.
//   tcp_exchange [--all]      --all: every bare loop on a line of its own

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "transport/messages.h"
#include "transport/tcp/tcp_transport.h"

namespace tutti {
namespace {

constexpr std::size_t kMessage = 128 * 1024;
constexpr int kChannels = 2;
constexpr std::uint64_t kSignature = 1;

void require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::exit(1);
}

std::pair<UniqueFd, UniqueFd> connection() {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  require(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  require(::listen(listener.get(), 1) == 0, "listen");
  require(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
  UniqueFd connecting(::socket(AF_INET, SOCK_STREAM, 0));
  require(::connect(connecting.get(), reinterpret_cast<sockaddr*>(&address), size) == 0, "connect");
  UniqueFd accepted(::accept(listener.get(), nullptr, nullptr));
  require(static_cast<bool>(accepted), "accept");
  return {std::move(connecting), std::move(accepted)};
}

// Both threads meet here, spinning.
class SpinBarrier {
 public:
  void meet() {
    const int round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == 1) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
    } else {
      while (round_.load(std::memory_order_acquire) == round) relax_cpu();
    }
  }

 private:
  std::atomic<int> arrived_{0};
  std::atomic<int> round_{0};
};

// One way to exchange; each rank calls run() with its own buffers.
struct Contender {
  virtual ~Contender() = default;
  virtual void run(int rank, const std::byte* input, std::byte* output, std::size_t bytes) = 0;
  std::string label;
};

struct Bare final : Contender {
  Bare(std::size_t piece, int buffer) : piece(piece) {
    label = "bare, pieces of " + std::to_string(piece / 1024) + " KiB, buffers of " +
            (buffer == 0 ? "the system's choice" : std::to_string(buffer / 1024) + " KiB");
    std::tie(fds[0], fds[1]) = connection();
    for (const UniqueFd& fd : fds) {
      const int one = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      if (buffer == 0) continue;
      ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    }
  }
  void run(int rank, const std::byte* input, std::byte* output, std::size_t bytes) override {
    std::size_t sent = 0;
    std::size_t got = 0;
    while (sent < bytes || got < bytes) {
      if (sent < bytes) {
        const ssize_t n = ::send(fds[rank].get(), input + sent, std::min(piece, bytes - sent), MSG_DONTWAIT);
        if (n > 0) sent += static_cast<std::size_t>(n);
      }
      if (got < bytes) {
        const ssize_t n = ::recv(fds[rank].get(), output + got, std::min(piece, bytes - got), MSG_DONTWAIT);
        if (n > 0) got += static_cast<std::size_t>(n);
      }
    }
  }
  std::size_t piece;
  UniqueFd fds[2];
};

struct OverTransport final : Contender {
  explicit OverTransport(int buffer) {
    label = "transport, buffers of " + std::to_string(buffer / 1024) + " KiB";
    TcpLimits limits;
    limits.channels = kChannels;
    limits.window = 4;
    limits.max_message_bytes = kMessage;
    limits.socket_buffer_bytes = buffer;
    for (int r = 0; r < 2; ++r) {
      tcp[r] = std::make_unique<TcpTransport>(
          r, 2, health[r], [](int) {}, limits);
      for (int c = 0; c < kChannels; ++c) {
        endpoints[r][c].peer = static_cast<std::uint16_t>(1 - r);
        endpoints[r][c].channel = static_cast<std::uint8_t>(c);
        tcp[r]->add_endpoint(endpoints[r][c]);
      }
    }
    auto [a, b] = connection();
    tcp[0]->attach(1, std::move(a), true);
    tcp[1]->attach(0, std::move(b), false);
  }

  void run(int rank, const std::byte* input, std::byte* output, std::size_t bytes) override {
    TcpTransport& transport = *tcp[rank];
    const std::size_t messages = (bytes + kMessage - 1) / kMessage;
    // Message i goes over channel i % kChannels.
    std::size_t to_send[kChannels];
    std::size_t to_receive[kChannels];
    bool posted[kChannels] = {};
    for (std::size_t c = 0; c < kChannels; ++c) to_send[c] = to_receive[c] = c;
    for (bool done = false; !done;) {
      done = true;
      for (std::size_t c = 0; c < kChannels; ++c) {
        Endpoint& endpoint = endpoints[rank][c];
        for (std::size_t& i = to_send[c]; i < messages && can_publish(endpoint); i += kChannels) {
          const Place place{Place::kOwnMemory, reinterpret_cast<std::uint64_t>(input + i * kMessage)};
          std::memcpy(next_line(endpoint).payload, &place, sizeof place);
          publish_line(endpoint, {.way = Way::kRead, .slot = 0, .length = length(i, bytes)}, kSignature, {});
        }
        std::size_t& i = to_receive[c];
        if (const Line* line = i < messages ? arrived(endpoint) : nullptr) {
          const Descriptor descriptor = Descriptor::unpack(line->descriptor);
          if (descriptor.way == Way::kSlot) {
            std::memcpy(output + i * kMessage, endpoint.in_slots + std::size_t{descriptor.slot} * Descriptor::kSlotUnit,
                        descriptor.length);
            ++through_slots;
          }
          take_message(endpoint, *line);
          settle_credit(endpoint);
          i += kChannels;
          posted[c] = false;
        }
        if (i < messages && !posted[c]) {
          transport.post(endpoint, output + i * kMessage, length(i, bytes), kSignature);
          posted[c] = true;
        }
        done = done && to_send[c] >= messages && to_receive[c] >= messages;
      }
      transport.progress();
    }
    while (!transport.written()) {
    }
    require(!health[rank].failed(), "transport failed");
  }

  static std::uint32_t length(std::size_t message, std::size_t bytes) {
    return static_cast<std::uint32_t>(std::min(kMessage, bytes - message * kMessage));
  }

  Health health[2]{Health(2), Health(2)};
  std::unique_ptr<TcpTransport> tcp[2];
  Endpoint endpoints[2][kChannels];
  std::atomic<std::uint64_t> through_slots{0};
};

double percentile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1))];
}

// Microseconds of each exchange, by contender.
std::vector<std::vector<double>> measure(const std::vector<std::unique_ptr<Contender>>& contenders, std::size_t bytes,
                                         int rounds) {
  std::vector<std::vector<double>> times(contenders.size());
  SpinBarrier barrier;
  std::uint64_t sink = 0;
  const auto rank_main = [&](int rank) {
    std::vector<std::byte> input(bytes);
    std::vector<std::byte> output(bytes);
    std::uint64_t sum = 0;
    for (int round = -2; round < rounds; ++round) {
      for (std::size_t c = 0; c < contenders.size(); ++c) {
        const auto mark = static_cast<std::byte>(round * 7 + static_cast<int>(c) + rank * 100);
        std::memset(input.data(), std::to_integer<int>(mark), bytes);
        for (std::size_t i = 0; i < bytes; i += 64) sum += std::to_integer<std::uint64_t>(output[i]);
        barrier.meet();
        const auto begin = std::chrono::steady_clock::now();
        contenders[c]->run(rank, input.data(), output.data(), bytes);
        barrier.meet();
        const auto end = std::chrono::steady_clock::now();
        const auto expected = static_cast<std::byte>(round * 7 + static_cast<int>(c) + (1 - rank) * 100);
        for (std::size_t i = 0; i < bytes; i += 61) require(output[i] == expected, "wrong bytes");
        if (rank == 0 && round >= 0) times[c].push_back(std::chrono::duration<double, std::micro>(end - begin).count());
      }
    }
    if (rank == 0) sink = sum;
  };
  std::thread other(rank_main, 1);
  rank_main(0);
  other.join();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return times;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  using namespace tutti;
  const bool all = argc > 1 && std::string_view(argv[1]) == "--all";
  std::printf("%10s %22s %22s %7s  %s\n", "bytes", "bare p05/p50", "transport p05/p50", "ratio", "best bare loop");
  for (const auto& [bytes, rounds] :
       {std::pair<std::size_t, int>{64 << 10, 400}, {1 << 20, 150}, {4 << 20, 60}, {64 << 20, 8}}) {
    std::vector<std::unique_ptr<Contender>> contenders;
    contenders.push_back(std::make_unique<OverTransport>(TcpLimits().socket_buffer_bytes));
    for (const std::size_t piece : {64u << 10, 128u << 10}) {
      for (const int buffer : {0, 256 << 10, 512 << 10, 1 << 20}) {
        contenders.push_back(std::make_unique<Bare>(piece, buffer));
      }
    }
    const auto times = measure(contenders, bytes, rounds);
    std::size_t best = 1;
    for (std::size_t c = 1; c < contenders.size(); ++c) {
      if (percentile(times[c], 0.5) < percentile(times[best], 0.5)) best = c;
    }
    const double bare = percentile(times[best], 0.5);
    const double ours = percentile(times[0], 0.5);
    std::printf("%10zu %11.1f/%10.1f %11.1f/%10.1f %7.2f  %s\n", bytes, percentile(times[best], 0.05), bare,
                percentile(times[0], 0.05), ours, ours / bare, contenders[best]->label.c_str());
    for (std::size_t c = 0; all && c < contenders.size(); ++c) {
      std::printf("%10s %11.1f/%10.1f  %s\n", "", percentile(times[c], 0.05), percentile(times[c], 0.5),
                  contenders[c]->label.c_str());
    }
    if (all) {
      std::printf("%10s %llu messages went through slots\n", "",
                  static_cast<unsigned long long>(static_cast<OverTransport&>(*contenders[0]).through_slots.load()));
    }
  }
}
