#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/net/address.h"
#include "bootstrap/challenge.h"
#include "bootstrap/event_loop.h"

namespace tutti {

// A listening socket that lets in only who passes the challenge. Strangers, port scanners and silent connections cost
// one bounded table entry for a bounded time. Belongs to the loop's thread.
class Listener {
 public:
  using OnPeer = std::function<void(const Hello&, ProvenSocket)>;

  // Connections wait in the kernel's queue until admit() says who is welcome.
  Listener(EventLoop& loop, UniqueFd socket);
  ~Listener();

  // `judge` may turn away a client that knows the secret, with a reason.
  void admit(const Credentials& own, Challenge::Judge judge, OnPeer on_peer);
  // Also lets in those who name another communicator in which this side is known. REQUIRES: admit() was called.
  void also_known_as(Challenge::RankIn rank_in) { rank_in_ = std::move(rank_in); }

  // Calls back, once, when no connection could be accepted for a while because this process is out of descriptors or
  // memory.
  void when_exhausted(std::function<void(const std::string& trouble)> callback) { on_exhausted_ = std::move(callback); }

  // Connections that spoke the protocol but did not know the secret or belong to another job: for messages.
  int turned_away() const { return turned_away_; }
  const std::string& last_trouble() const { return last_trouble_; }

 private:
  void accept();
  void wait();
  void greet(UniqueFd socket, const SocketAddress& from);
  void turn_away(const SocketAddress& from, Challenge::Outcome outcome);
  void drop_oldest();

  EventLoop& loop_;
  Watch socket_;
  Timer pause_;
  Credentials own_;
  Challenge::Judge judge_;
  OnPeer on_peer_;
  Challenge::RankIn rank_in_;
  std::map<std::uint64_t, std::shared_ptr<Challenge>> challenges_;  // by age
  std::uint64_t accepted_ = 0;
  bool complained_ = false;
  std::function<void(const std::string&)> on_exhausted_;
  std::optional<Clock::time_point> exhausted_since_;
  bool told_of_strangers_ = false;
  int turned_away_ = 0;
  std::string last_trouble_;
};

}  // namespace tutti
