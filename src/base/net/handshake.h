#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/key.h"
#include "tutti/error.h"

namespace tutti {

// The mutual challenge at the start of every connection, as pure message functions: no sockets, no clocks, no threads.
// Whoever owns the connection reads wanted() bytes, feeds them, and writes what comes out.
//
//   client                                  server
//   hello    who, whom, purpose, nonce  ─▶            72 bytes
//                                       ◀─  challenge nonce, MAC(key, "server", hello, nonce)
//   proof    MAC(key, "client", …)      ─▶            the hello is believed from here on
//                                       ◀─  accept    MAC(key, "accept", …)
//
// In place of a challenge or an accept the server may send a reject with a reason. Each MAC covers the whole hello and
// both nonces under a key of its own per communicator and purpose, and the three roles differ: a reflected or replayed
// message proves nothing.

enum class Purpose : std::uint8_t { kMeet = 1, kTree = 2, kData = 3, kSurvivors = 4 };

// What a client says about itself.
struct Hello {
  Purpose purpose = Purpose::kMeet;
  std::uint32_t client_rank = 0;
  std::uint32_t server_rank = 0;
  std::uint32_t ranks = 0;
  // communicator_name(): ranks of another job or communicator are told apart before anything else.
  std::array<std::byte, 16> communicator{};
};

// The public name of a communicator, from its nonce and the launcher's identity of the job.
std::array<std::byte, 16> communicator_name(const Nonce& nonce, std::string_view job);

// The keys of one connection, one for each way: what is said after the challenge can be tied to it.
struct SessionKeys {
  Key sending;
  Key receiving;
};

enum class HandshakeState {
  kRunning,   // feed it wanted() more bytes
  kProven,    // server only: the client knows the key; look at hello(), then accept() or reject()
  kAccepted,  // both sides know the key and agree to talk
  kRejected,  // code() and reason() say why; send what came out, then close
};

// What both sides have in common. One connection, one thread.
class Handshake {
 public:
  static constexpr std::size_t kHelloBytes = 72;
  static constexpr std::size_t kMaxReason = 400;

  HandshakeState state() const { return state_; }
  // Bytes that complete the message being read; never more than kMaxReason. 0 when nothing more is read.
  std::size_t wanted() const { return state_ == HandshakeState::kRunning ? wanted_ - received_ : 0; }

  ErrorCode code() const { return code_; }
  // Printable text. From a peer that has not proven anything it is a hint, not a fact.
  const std::string& reason() const { return reason_; }
  // REQUIRES: kAccepted. Made from both nonces: no other connection has them.
  SessionKeys session() const;

 protected:
  using Bytes = std::vector<std::byte>;

  explicit Handshake(bool client) : client_(client) {}
  ~Handshake() = default;
  // Takes what the message still needs; returns whether it is complete.
  bool collect(std::span<const std::byte>& data);
  std::span<const std::byte> message() const { return {buffer_.data(), received_}; }
  void expect(std::size_t bytes);
  void fail(ErrorCode code, std::string reason);

  Key key_;
  std::array<std::byte, kHelloBytes> hello_bytes_{};
  std::array<std::byte, 32> server_nonce_{};
  HandshakeState state_ = HandshakeState::kRunning;

 private:
  bool client_;
  std::array<std::byte, kMaxReason> buffer_{};
  std::size_t received_ = 0;
  std::size_t wanted_ = 0;
  ErrorCode code_ = ErrorCode::kUnauthorized;
  std::string reason_;
};

// The side that connects.
class ClientHandshake : public Handshake {
 public:
  ClientHandshake(const Hello& hello, const Key& secret);

  // The first bytes to send.
  std::vector<std::byte> start() const { return {hello_bytes_.begin(), hello_bytes_.end()}; }
  // Takes at most wanted() bytes off the front of `data`; returns what to send now, often nothing.
  std::vector<std::byte> feed(std::span<const std::byte>& data);

  // Whether the server has shown that it knows the key. A refusal by one that has not is always kUnauthorized.
  bool proven() const { return proven_; }

 private:
  enum class Step { kType, kChallenge, kRejectHead, kRejectText, kAccept };
  void read_type(std::uint8_t type);
  Step step_ = Step::kType;
  ErrorCode reject_code_ = ErrorCode::kUnauthorized;
  bool proven_ = false;
};

// The side that listens.
class ServerHandshake : public Handshake {
 public:
  // This side's rank in a further communicator; nothing where it has none.
  using RankIn = std::function<std::optional<std::uint32_t>(const std::array<std::byte, 16>& communicator)>;

  // `rank` and `communicator` are this side's own; a hello that means somebody else is rejected, unless `rank_in` knows
  // the communicator.
  ServerHandshake(std::uint32_t rank, const std::array<std::byte, 16>& communicator, const Key& secret,
                  RankIn rank_in = {});

  std::vector<std::byte> feed(std::span<const std::byte>& data);

  // What the client said; to be believed from kProven on.
  const Hello& hello() const { return hello_; }
  // REQUIRES: kProven. Returns the last bytes to send.
  std::vector<std::byte> accept();
  std::vector<std::byte> reject(ErrorCode code, std::string reason);

 private:
  std::vector<std::byte> read_hello();
  std::uint32_t rank_;
  std::array<std::byte, 16> communicator_;
  Key secret_;
  RankIn rank_in_;
  Hello hello_;
  bool greeted_ = false;
};

// The key under which one purpose of one communicator is authenticated.
Key handshake_key(const Key& secret, const std::array<std::byte, 16>& communicator, Purpose purpose);

}  // namespace tutti
