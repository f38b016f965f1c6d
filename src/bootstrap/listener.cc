#include "bootstrap/listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/open_sockets.h"
#include "base/system_error.h"
#include "bootstrap/sockets.h"
#include "bootstrap/waiting_room.h"

namespace tutti {
namespace {

constexpr int kAcceptAtOnce = 64;  // then others get their turn
constexpr std::chrono::seconds kPatience(10);
constexpr std::chrono::milliseconds kPause(100);
constexpr std::chrono::milliseconds kShortPause(10);
constexpr std::chrono::milliseconds kExhausted(1000);

// Any descriptor will do. Another one of the listening socket needs no permission.
UniqueFd open_reserve(int listening) {
  return OpenSockets::open([listening] { return ::fcntl(listening, F_DUPFD_CLOEXEC, 0); });
}

std::string trouble_with(int error) {
  return system_trouble("cannot accept a connection", error, descriptor_advice(error));
}

}  // namespace

Listener::Listener(EventLoop& loop, UniqueFd socket)
    : loop_(loop),
      socket_(loop, std::move(socket)),
      pause_(loop),
      reserve_(open_reserve(socket_.fd())),
      try_held_(loop) {}

Listener::~Listener() { WaitingRoom::of_this_thread().leave_all(this); }

void Listener::admit(const Credentials& own, Challenge::Judge judge, OnPeer on_peer) {
  own_ = own;
  judge_ = std::move(judge);
  on_peer_ = std::move(on_peer);
  wait();
}

void Listener::wait() {
  socket_.when_readable([this] {
    try {
      accept();
    } catch (const std::exception& trouble) {
      // Out of memory, perhaps: whoever it was comes again.
      log_line(std::exchange(complained_, true) ? LogLevel::kDebug : LogLevel::kWarn, trouble.what());
      pause(kPause);
    }
  });
}

void Listener::pause(std::chrono::milliseconds time) {
  pause_.arm_after(time, [this] { wait(); });
}

bool Listener::accept_one(int& error) {
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  UniqueFd socket = OpenSockets::open([&] {
    return ::accept4(socket_.fd(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  });
  error = socket ? 0 : errno;
  if (!socket) return false;
  try {
    greet(std::move(socket), SocketAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&from), length));
  } catch (const Error& trouble) {
    // Whoever it was tries again.
    log_line(std::exchange(complained_, true) ? LogLevel::kDebug : LogLevel::kWarn, trouble.what());
  }
  return true;
}

void Listener::accept() {
  WaitingRoom& room = WaitingRoom::of_this_thread();
  for (int i = 0; i < kAcceptAtOnce; ++i) {
    if (room.full() && !room.make_room()) return pause(kShortPause);
    int error = 0;
    if (accept_one(error) || accept_may_go_on(error)) continue;
    if (error == EAGAIN) break;
    // Out of descriptors or memory. Whoever has not proven anything yet gives way; otherwise those that wait stay in
    // the queue, and the loop does not spin.
    log_line(std::exchange(complained_, true) ? LogLevel::kDebug : LogLevel::kWarn,
             trouble_with(error) + "; trying again");
    if (room.make_room()) continue;
    if (!room.empty()) return pause(kShortPause);
    // Whether it is a rank or a stranger shows only behind the challenge.
    regain_reserve();
    reserve_.reset();
    if (!accept_one(error)) {
      reserve_ = open_reserve(socket_.fd());
      return pause(kPause);
    }
  }
  wait();
}

void Listener::greet(UniqueFd socket, const SocketAddress& from) {
  set_low_latency(socket.get());
  WaitingRoom& room = WaitingRoom::of_this_thread();
  const auto begin = [&](std::uint64_t number) {
    return Challenge::as_server(loop_, std::move(socket), own_, rank_in_, judge_, kPatience,
                                [this, &room, number, from](Challenge::Outcome outcome) {
                                  room.leave(number);
                                  regain_reserve();
                                  if (outcome.socket) return let_in({outcome.hello, std::move(outcome.socket)});
                                  turn_away(from, std::move(outcome));
                                });
  };
  room.enter(this, begin, [this] { regain_reserve(); });
}

void Listener::regain_reserve() {
  if (!reserve_) reserve_ = open_reserve(socket_.fd());
}

// With the reserve in use this process is at its end: perhaps for a moment only.
void Listener::let_in(Guest guest) {
  if (reserve_) return on_peer_(guest.hello, std::move(guest.socket));
  held_.push_back(std::move(guest));
  if (held_.size() > 1) return;
  held_since_ = Clock::now();
  try_held_.arm_after(kPause, [this] { try_held(); });
}

void Listener::try_held() {
  regain_reserve();
  const int error = errno;
  if (!reserve_ && Clock::now() - held_since_ < kExhausted) {
    return try_held_.arm_after(kPause, [this] { try_held(); });
  }
  std::vector<Guest> held = std::exchange(held_, {});
  if (reserve_) {
    for (Guest& guest : held) on_peer_(guest.hello, std::move(guest.socket));
    return;
  }
  held.clear();
  reserve_ = open_reserve(socket_.fd());
  if (on_exhausted_) std::exchange(on_exhausted_, nullptr)(trouble_with(error));
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
