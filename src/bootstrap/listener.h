#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/net/address.h"
#include "bootstrap/challenge.h"
#include "bootstrap/event_loop.h"

namespace tutti {

// A listening socket that lets in only who passes the challenge. Strangers, port scanners and silent connections cost
// a place in the waiting room for a bounded time. It keeps a descriptor in reserve: where the process has no other
// left, whoever comes can still be asked who it is. Belongs to the loop's thread.
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

  // Calls back, once, when somebody who passed the challenge cannot be kept because this process has been out of
  // descriptors or memory for a while. Nothing that a stranger does leads to that.
  void when_exhausted(std::function<void(const std::string& trouble)> callback) { on_exhausted_ = std::move(callback); }

  // Connections that spoke the protocol but did not know the secret or belong to another job: for messages.
  int turned_away() const { return turned_away_; }
  const std::string& last_trouble() const { return last_trouble_; }

 private:
  struct Guest {
    Hello hello;
    ProvenSocket socket;
  };
  void accept();
  bool accept_one(int& error);
  void wait();
  void pause(std::chrono::milliseconds time);
  void greet(UniqueFd socket, const SocketAddress& from);
  void regain_reserve();
  void let_in(Guest guest);
  void try_held();
  void turn_away(const SocketAddress& from, Challenge::Outcome outcome);

  EventLoop& loop_;
  Watch socket_;
  Timer pause_;
  Credentials own_;
  Challenge::Judge judge_;
  OnPeer on_peer_;
  Challenge::RankIn rank_in_;
  UniqueFd reserve_;         // none: it was needed, and the system has no other
  std::vector<Guest> held_;  // they have proven themselves, and took the reserve
  Clock::time_point held_since_;
  Timer try_held_;
  bool complained_ = false;
  std::function<void(const std::string&)> on_exhausted_;
  bool told_of_strangers_ = false;
  int turned_away_ = 0;
  std::string last_trouble_;
};

}  // namespace tutti
