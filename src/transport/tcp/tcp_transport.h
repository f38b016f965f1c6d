#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/handles.h"
#include "base/health.h"
#include "transport/tcp/limits.h"
#include "transport/tcp/peer.h"
#include "transport/transport.h"

namespace tutti {

// Carries the endpoints of one communicator and rank over TCP: one connection for each pair of ranks that talk, made
// when either side first has something to say. Owned by the communicator; see docs/tcp.md for what is on the wire.
//
// Any thread may call anything but the constructor and the destructor; one lock is held for as long as a few system
// calls take, and progress() returns at once when another thread has it. Nothing waits except the destructor. Once the
// connections are there and every slot was used, nothing allocates.
//
// A peer that breaks the protocol fails the communicator. The end of a connection does so only when something is still
// expected from that peer or owed to it, and only after TcpLimits::lost_grace of progress() calls.
class TcpTransport final : public Transport {
 public:
  // Asks the control plane for a connection to a peer, which later arrives through attach(). Never waits; called
  // without the lock, at most once for each peer.
  using RequestConnection = std::function<void(int peer)>;

  // REQUIRES: health outlives the transport; limits.window is a power of two. Throws Error(kSystem).
  TcpTransport(int rank, int ranks, Health& health, RequestConnection request_connection, const TcpLimits& limits = {});
  // Waits until the peers' systems have what flush() said was written, at most limits.close_wait, and not at all when
  // the communicator has failed. No other call may be running.
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  // Gives the endpoint its lines, credit words and incoming slots, and sets its window and transport. Set before:
  // peer, channel. A peer may already have sent to it. The endpoint may move; its memory belongs to the transport.
  // Throws Error(kSystem).
  void add_endpoint(Endpoint& endpoint);

  // An authenticated, connected socket to this peer. initiated_here: this rank opened it (request_connection led to
  // it); otherwise the peer did. Both may open one at once. The rule: a connection opened by the lower rank is used at
  // once by both. One opened by the higher rank is used when the lower rank accepts it by its first frame; the lower
  // rank closes it instead when it has asked for one itself that is on its way. Whatever is not used is closed here.
  // Control thread.
  void attach(int peer, UniqueFd socket, bool initiated_here);
  // Whether a connection that this rank has asked for has to be opened by the peer: none is on its way from here.
  // Control thread.
  void await(int peer, bool waits);

  std::string_view name() const override { return "tcp"; }
  void published(Endpoint& endpoint) override;
  void consumed(Endpoint& endpoint) override;
  void post(Endpoint& endpoint, std::byte* destination, std::uint32_t length, std::uint64_t signature) override;
  void withdraw(Endpoint& endpoint) override;
  // Looks whether connections still carry what is under way. For the control thread, while this rank may be in no call.
  void look_after_paths();

  bool progress() override;
  bool written() override;
  bool flush() override;
  void finish() override;
  bool has_all(int peer) override;
  int descriptor() const override { return epoll_.get(); }

 private:
  TcpPeer& peer(int rank);
  bool serve(TcpPeer& peer, bool readable);
  bool progress_all();
  // Writes what can be written, all credit included.
  bool write_all();
  // Takes note of a connection that ended, or of what was wrong in it.
  void look_after(TcpPeer& peer);
  void watch(TcpPeer& peer);
  void check_lost();
  void check_paths();

  const int rank_;
  Health& health_;
  const RequestConnection request_connection_;
  const TcpLimits limits_;
  UniqueFd epoll_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<TcpPeer>> peers_;  // by rank; null: never talked to
  std::vector<TcpPeer*> known_;
  bool any_lost_ = false;
  bool finished_ = false;
  int idle_turns_ = 0;
  Deadline next_path_check_;
};

}  // namespace tutti
