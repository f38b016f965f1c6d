#pragma once

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/handles.h"
#include "base/net/address.h"
#include "bootstrap/challenge.h"
#include "bootstrap/dialer.h"
#include "bootstrap/event_loop.h"
#include "bootstrap/listener.h"

namespace tutti {

// Rank 0 of two, of a communicator that nobody else knows.
Credentials credentials();

// How this host reaches a listening socket.
SocketAddress address_of(const UniqueFd& listening);

// Looks for rank 0 of `to` at these addresses, and waits for what comes of it.
Dialer::Outcome dial(EventLoop& loop, std::vector<SocketAddress> addresses, const Credentials& to,
                     std::chrono::milliseconds patience);

// A port of this host that lets in whoever knows the secret, unless `judge` has something against it.
class Door {
 public:
  Door(EventLoop& loop, const Credentials& own, Challenge::Judge judge = {});
  ~Door();
  const SocketAddress& address() const { return address_; }
  std::size_t guests();
  // Why it could not keep somebody.
  std::future<std::string> exhausted() { return exhausted_.get_future(); }

 private:
  EventLoop& loop_;
  SocketAddress address_;
  std::unique_ptr<Listener> listener_;
  std::vector<ProvenSocket> guests_;
  std::promise<std::string> exhausted_;
};

}  // namespace tutti
