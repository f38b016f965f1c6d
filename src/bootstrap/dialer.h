#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/net/address.h"
#include "bootstrap/challenge.h"
#include "bootstrap/event_loop.h"

namespace tutti {

// Connects to a peer that has several addresses: begins with the first and adds the next after a short while, and the
// first behind which somebody passes the challenge is taken. Belongs to the loop's thread; calls back once, unless
// cancelled.
//
// Always held by shared_ptr: what waits for its sockets keeps it alive.
class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  struct Outcome {
    ProvenSocket socket;  // none: no address led to the peer
    SocketAddress address;
    ErrorCode code = ErrorCode::kTimeout;
    std::string trouble;       // every address and what happened there
    bool all_refused = false;  // nobody listens at any of them
    bool connected = false;    // somebody took a connection, whoever that was
    bool exhausted = false;    // this process is out of descriptors or memory
    bool rejected = false;     // somebody answers there, who may be anybody, and does not let this rank in
    bool alive = false;        // the peer itself answers: somebody who knows the secret
    bool gone = false;         // nobody listens at any of them, or somebody who does not know the secret
  };
  using Done = std::function<void(Outcome)>;

  static std::shared_ptr<Dialer> start(EventLoop& loop, std::vector<SocketAddress> addresses, const Hello& hello,
                                       const Key& secret, std::chrono::milliseconds patience, Done done);
  void cancel();

  Dialer(EventLoop& loop, std::vector<SocketAddress> addresses, const Hello& hello, const Key& secret, Done done);

 private:
  void begin_next();
  void connected(std::size_t which);
  void challenge_next();
  void challenged(std::size_t which, Challenge::Outcome outcome);
  void failed(std::size_t which, const std::string& trouble, bool refused);
  void give_up();
  void finish(Outcome outcome);

  EventLoop& loop_;
  const std::vector<SocketAddress> addresses_;
  const Hello hello_;
  const Key secret_;
  Done done_;
  Timer stagger_;
  Timer deadline_;
  std::chrono::milliseconds patience_{0};           // for one challenge
  std::vector<std::unique_ptr<Watch>> connecting_;  // by address; null: not begun, or over
  std::vector<std::size_t> connected_;              // wait for their turn with the challenge: one at a time
  std::shared_ptr<Challenge> challenge_;
  std::size_t challenging_ = 0;  // whom it challenges
  std::size_t begun_ = 0;
  std::size_t failed_ = 0;
  std::size_t refused_ = 0;
  std::size_t strangers_ = 0;
  Outcome outcome_;
};

}  // namespace tutti
