#include "bootstrap/listener.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/open_sockets.h"
#include "base/system_error.h"
#include "bootstrap/sockets.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxChallenges = 1024;
constexpr std::size_t kMinChallenges = 16;
constexpr int kAcceptAtOnce = 64;  // then others get their turn
constexpr std::chrono::seconds kPatience(10);
constexpr std::chrono::milliseconds kPause(100);
constexpr std::chrono::milliseconds kExhausted(1000);

// Strangers must not take the descriptors that the program itself needs.
std::size_t most_challenges() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMinChallenges;
  return std::clamp(static_cast<std::size_t>(limit.rlim_cur) / 4, kMinChallenges, kMaxChallenges);
}

}  // namespace

Listener::Listener(EventLoop& loop, UniqueFd socket) : loop_(loop), socket_(loop, std::move(socket)), pause_(loop) {}

Listener::~Listener() {
  for (auto& [age, challenge] : challenges_) challenge->cancel();
}

void Listener::admit(const Credentials& own, Challenge::Judge judge, OnPeer on_peer) {
  own_ = own;
  judge_ = std::move(judge);
  on_peer_ = std::move(on_peer);
  wait();
}

void Listener::wait() {
  socket_.when_readable([this] { accept(); });
}

void Listener::accept() {
  for (int i = 0; i < kAcceptAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    UniqueFd socket = OpenSockets::open([&] {
      return ::accept4(socket_.fd(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    });
    if (socket) {
      exhausted_since_.reset();
      try {
        greet(std::move(socket), SocketAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&from), length));
      } catch (const Error& error) {
        // Whoever it was tries again.
        log_line(std::exchange(complained_, true) ? LogLevel::kDebug : LogLevel::kWarn, error.what());
      }
      continue;
    }
    if (accept_may_go_on(errno)) continue;
    if (errno == EAGAIN) break;
    const std::string trouble = system_trouble("cannot accept a connection", errno, descriptor_advice(errno));
    // Out of descriptors or memory. Whoever has not proven anything yet gives way; otherwise those that wait stay in
    // the queue, and the loop does not spin.
    log_line(std::exchange(complained_, true) ? LogLevel::kDebug : LogLevel::kWarn, trouble + "; trying again");
    if (!challenges_.empty()) {
      drop_oldest();
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (!exhausted_since_) exhausted_since_ = now;
    pause_.arm_after(kPause, [this] { wait(); });
    if (now - *exhausted_since_ > kExhausted && on_exhausted_) std::exchange(on_exhausted_, nullptr)(trouble);
    return;
  }
  wait();
}

// It has had the most time to prove itself; a rank that is hit tries again.
void Listener::drop_oldest() {
  challenges_.begin()->second->cancel();
  challenges_.erase(challenges_.begin());
}

void Listener::greet(UniqueFd socket, const SocketAddress& from) {
  if (challenges_.size() >= most_challenges()) drop_oldest();
  set_low_latency(socket.get());
  const std::uint64_t number = accepted_++;
  challenges_[number] = Challenge::as_server(loop_, std::move(socket), own_, rank_in_, judge_, kPatience,
                                             [this, number, from](Challenge::Outcome outcome) {
                                               challenges_.erase(number);
                                               if (outcome.socket) {
                                                 on_peer_(outcome.hello, std::move(outcome.socket));
                                                 return;
                                               }
                                               turn_away(from, std::move(outcome));
                                             });
}

// The first one is worth a line; a flood is not.
void Listener::turn_away(const SocketAddress& from, Challenge::Outcome outcome) {
  const bool told = std::exchange(told_of_strangers_, true);
  if (const LogLevel level = told ? LogLevel::kDebug : LogLevel::kInfo; log_enabled(level)) {
    log_line(level, fmt::format("a connection from {} was turned away: {}", from.text(), outcome.trouble));
  }
  if (!outcome.spoke) return;
  ++turned_away_;
  last_trouble_ = std::move(outcome.trouble);
}

}  // namespace tutti
