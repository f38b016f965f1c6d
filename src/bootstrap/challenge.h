#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/net/handshake.h"
#include "bootstrap/event_loop.h"

namespace tutti {

// How a side of a handshake is known to the other.
struct Credentials {
  int rank = 0;
  int ranks = 0;
  std::array<std::byte, 16> communicator{};
  Key secret;
};

// A connected socket whose other end has passed the challenge.
struct ProvenSocket {
  UniqueFd fd;
  SessionKeys keys;
  explicit operator bool() const { return static_cast<bool>(fd); }
};

// Runs the mutual challenge over one connected socket within a deadline. Reads not a byte beyond it. Belongs to the
// loop's thread; calls back once, unless cancelled.
//
// Always held by shared_ptr: what waits for the socket keeps it alive until it has called back.
class Challenge : public std::enable_shared_from_this<Challenge> {
 public:
  struct Outcome {
    ProvenSocket socket;  // none: it failed
    Hello hello;          // the client's
    ErrorCode code = ErrorCode::kSystem;
    std::string trouble;
    bool spoke = false;   // the other side knew the protocol at least
    bool proven = false;  // of a client: the server knows the secret, though it does not let this side in
  };
  using Done = std::function<void(Outcome)>;
  // Why a client that knows the secret is not welcome, or "".
  using Judge = std::function<std::string(const Hello&)>;

  // This side's rank in a further communicator that a client names; nothing where it has none.
  using RankIn = ServerHandshake::RankIn;

  static std::shared_ptr<Challenge> as_client(EventLoop& loop, UniqueFd socket, const Hello& hello, const Key& secret,
                                              std::chrono::milliseconds patience, Done done);
  static std::shared_ptr<Challenge> as_server(EventLoop& loop, UniqueFd socket, const Credentials& own, RankIn rank_in,
                                              Judge judge, std::chrono::milliseconds patience, Done done);
  void cancel();

  template <class Side>
  Challenge(EventLoop& loop, UniqueFd socket, Side side, Judge judge, Done done)
      : socket_(std::in_place, loop, std::move(socket)),
        timer_(loop),
        side_(std::move(side)),
        judge_(std::move(judge)),
        done_(std::move(done)) {}

 private:
  void begin(std::chrono::milliseconds patience);
  void read();
  void advance(std::span<const std::byte> data);
  bool send(std::span<const std::byte> data);
  void succeed();
  void fail(ErrorCode code, std::string trouble);
  Handshake& handshake();

  std::optional<Watch> socket_;
  Timer timer_;
  std::variant<ClientHandshake, ServerHandshake> side_;
  Judge judge_;
  Done done_;
  Hello hello_;
  bool spoke_ = false;
};

}  // namespace tutti
