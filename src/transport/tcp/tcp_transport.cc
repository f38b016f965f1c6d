#include "transport/tcp/tcp_transport.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/system_error.h"

namespace tutti {
namespace {

// With no more peers than this, asking each socket is cheaper than asking the system which to ask.
constexpr std::size_t kFewPeers = 2;
constexpr std::chrono::seconds kPathCheckInterval{1};
// After so many calls of progress() that moved nothing, no message is going to carry the credit that is still owed, and
// the peer may be waiting for it.
constexpr int kIdleTurns = 16;
// The control connections are alive, or the ranks would have been told otherwise.
constexpr const char* kSilentPath =
    "small messages still pass on the control connections, so the path may swallow large packets: compare the MTU of "
    "both ends and of what lies between (ip link; ping -M do -s 1472 HOST), or let Linux find it out (sysctl "
    "net.ipv4.tcp_mtu_probing=1); else a firewall drops this connection";

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{:.3g}", std::chrono::duration<double>(time).count());
}

}  // namespace

TcpTransport::TcpTransport(int rank, int ranks, Health& health, RequestConnection request_connection,
                           const TcpLimits& limits)
    : rank_(rank),
      health_(health),
      request_connection_(std::move(request_connection)),
      limits_(limits),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      peers_(static_cast<std::size_t>(ranks)),
      next_path_check_(Clock::now() + kPathCheckInterval) {
  assert(limits.window > 0 && (limits.window & (limits.window - 1)) == 0);
  assert(limits.channels > 0 && limits.channels <= 255);
  if (!epoll_) throw system_error("cannot make an epoll descriptor", errno, descriptor_advice(errno));
}

void TcpTransport::finish() {
  const std::lock_guard lock(mutex_);
  if (health_.failed()) return;
  finished_ = true;
  write_all();
  for (TcpPeer* peer : known_) peer->finish_writing();
}

// The peer's end of the connection comes behind all that it has sent.
bool TcpTransport::has_all(int peer) {
  const std::lock_guard lock(mutex_);
  TcpPeer* const from = peers_[static_cast<std::size_t>(peer)].get();
  return from == nullptr || !from->connected() || Clock::now() - from->end_awaited_since() > limits_.silence;
}

TcpTransport::~TcpTransport() {
  if (health_.failed()) return;
  finish();
  const auto delivered = [](TcpPeer* peer) { return peer->delivered(); };
  const Deadline deadline = Clock::now() + limits_.close_wait;
  while (!std::all_of(known_.begin(), known_.end(), delivered) && Clock::now() < deadline && !health_.failed()) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void TcpTransport::add_endpoint(Endpoint& endpoint) {
  assert(endpoint.peer < peers_.size() && endpoint.channel < limits_.channels);
  const std::lock_guard lock(mutex_);
  peer(endpoint.peer).channel(endpoint.channel).bind(endpoint);
  endpoint.transport = this;
}

void TcpTransport::attach(int rank, UniqueFd socket, bool initiated_here) {
  assert(rank >= 0 && static_cast<std::size_t>(rank) < peers_.size() && rank != rank_);
  const std::lock_guard lock(mutex_);
  if (health_.failed()) return;
  TcpPeer& from = peer(rank);
  if (!from.attach(std::move(socket), initiated_here)) return;
  epoll_event event{.events = EPOLLIN, .data = {.u32 = static_cast<std::uint32_t>(rank)}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, from.descriptor(), &event) != 0) {
    const Error error = system_error("cannot watch the connection to rank " + std::to_string(rank), errno);
    health_.fail(error.code(), error.what());
    return;
  }
  from.set_watched_for_output(false);
  // The peer may be waiting for the answer that this connection is the one, whether anybody here makes progress or not.
  from.write_turn(false);
  watch(from);
  if (finished_) from.finish_writing();
}

void TcpTransport::await(int rank, bool waits) {
  const std::lock_guard lock(mutex_);
  peer(rank).await(waits);
}

void TcpTransport::published(Endpoint& endpoint) {
  bool ask = false;
  {
    const std::lock_guard lock(mutex_);
    if (health_.failed()) return;
    TcpPeer& to = peer(endpoint.peer);
    to.channel(endpoint.channel).note_published(endpoint.sent, endpoint.out_slots);
    to.wake();
    if (!to.connected()) {
      ask = to.take_request();
    } else if (!to.blocked()) {
      to.write_turn(false);
      watch(to);
    }
  }
  if (ask) request_connection_(endpoint.peer);
}

void TcpTransport::consumed(Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  TcpPeer& from = peer(endpoint.peer);
  from.channel(endpoint.channel).note_consumed(endpoint.received);
  // Sent by the next progress(): most often a message goes the other way first and carries it.
  from.wake();
}

void TcpTransport::post(Endpoint& endpoint, std::byte* destination, std::uint32_t length, std::uint64_t signature) {
  const std::lock_guard lock(mutex_);
  peer(endpoint.peer).channel(endpoint.channel).post(endpoint.received + 1, destination, length, signature);
}

void TcpTransport::withdraw(Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  peer(endpoint.peer).withdraw(endpoint.channel);
}

bool TcpTransport::progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock && progress_all();
}

void TcpTransport::look_after_paths() {
  // A thread that has the lock is in a call, and looks itself.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || health_.failed()) return;
  check_paths();
  if (any_lost_) check_lost();
}

bool TcpTransport::written() {
  const std::lock_guard lock(mutex_);
  if (health_.failed()) return false;
  bool all = true;
  for (TcpPeer* to : known_) {
    // Also sends what credit is due by itself.
    while (to->write_turn(false)) {
    }
    watch(*to);
    all = to->written() && all;
  }
  if (!all) progress_all();
  return all;
}

bool TcpTransport::flush() {
  const std::lock_guard lock(mutex_);
  if (health_.failed()) return false;
  write_all();
  const bool all = std::all_of(known_.begin(), known_.end(), [](const TcpPeer* to) { return to->flushed(); });
  // A peer that does the same may have to be relieved of what it sends before it reads.
  if (!all) progress_all();
  return all;
}

TcpPeer& TcpTransport::peer(int rank) {
  auto& peer = peers_[static_cast<std::size_t>(rank)];
  if (!peer) {
    peer = std::make_unique<TcpPeer>(rank, rank_ < rank, limits_);
    known_.push_back(peer.get());
  }
  return *peer;
}

bool TcpTransport::progress_all() {
  if (health_.failed()) return false;
  bool moved = false;
  if (known_.size() <= kFewPeers) {
    for (TcpPeer* peer : known_) moved |= serve(*peer, true);
  } else {
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      TcpPeer& peer = *peers_[event.data.u32];
      if (event.events & EPOLLOUT) peer.unblock();
      moved |= serve(peer, (event.events & ~std::uint32_t{EPOLLOUT}) != 0);
    }
    for (TcpPeer* peer : known_) {
      if (peer->wants_to_write() && !peer->blocked()) moved |= serve(*peer, false);
    }
  }
  if (any_lost_) check_lost();
  idle_turns_ = moved ? 0 : idle_turns_ + 1;
  if (idle_turns_ == kIdleTurns) moved = write_all();
  if (!moved) check_paths();
  return moved;
}

bool TcpTransport::write_all() {
  bool moved = false;
  for (TcpPeer* to : known_) {
    if (to->flushed()) continue;
    to->wake();
    while (to->write_turn(true)) moved = true;
    watch(*to);
  }
  return moved;
}

bool TcpTransport::serve(TcpPeer& peer, bool readable) {
  if (!peer.connected()) return false;
  bool moved = peer.write_turn(false);
  if (readable) {
    try {
      moved |= peer.read_turn();
    } catch (const Error& error) {  // no memory for a channel that only the peer uses so far
      health_.fail(error.code(), error.what(), peer.rank());
    }
    look_after(peer);
  }
  watch(peer);
  return moved;
}

void TcpTransport::look_after(TcpPeer& peer) {
  if (!peer.violation().empty()) {
    health_.fail(ErrorCode::kRemote,
                 "rank " + std::to_string(peer.rank()) + " sent " + peer.violation() + " on its connection to rank " +
                     std::to_string(rank_) +
                     ": its memory is damaged, or it runs another version of tutti; look at that rank first",
                 peer.rank());
  }
  if (!peer.lost().empty()) any_lost_ = true;
}

void TcpTransport::watch(TcpPeer& peer) {
  if (!peer.connected()) return;
  const bool output = peer.wants_to_write();
  if (output == peer.watched_for_output()) return;
  epoll_event event{.events = output ? EPOLLIN | EPOLLOUT : EPOLLIN,
                    .data = {.u32 = static_cast<std::uint32_t>(peer.rank())}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.descriptor(), &event);
  peer.set_watched_for_output(output);
}

void TcpTransport::check_lost() {
  for (TcpPeer* peer : known_) {
    if (peer->lost().empty()) continue;
    const auto since = peer->missed_since();
    if (!since || Clock::now() - *since < limits_.lost_grace) continue;
    health_.fail(ErrorCode::kRemote,
                 "the connection to rank " + std::to_string(peer->rank()) + " (" + peer->ends() + ") " + peer->lost() +
                     " while messages between it and rank " + std::to_string(rank_) + " were outstanding: " +
                     (peer->path_is_silent() ? kSilentPath
                                             : "that rank died, left early, or the network between them failed; its "
                                               "own output says more"),
                 peer->rank());
  }
}

void TcpTransport::check_paths() {
  const Deadline now = Clock::now();
  if (now < next_path_check_) return;
  next_path_check_ = now + kPathCheckInterval;
  for (TcpPeer* peer : known_) {
    if (peer->take_path_warning()) {
      log_warn("rank {}: the connection to rank {} ({}) carries nothing though data is sent again and again; {}", rank_,
               peer->rank(), peer->ends(), kSilentPath);
    }
    if (!peer->path_is_dead()) continue;
    peer->lose_path("carried nothing for " + seconds_text(limits_.silence) + " s though data was sent again and again");
    look_after(*peer);
  }
}

}  // namespace tutti
