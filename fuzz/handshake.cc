// The challenge at the start of every connection, with somebody in between who passes on, cuts, changes, reflects and
// replays what both sides say. Nobody may be believed who did not say it himself, here and now.
#include "base/net/handshake.h"

#include "fuzz/input.h"
#include "fuzz/target.h"

namespace tutti::fuzz {
namespace {

enum class Move : std::uint8_t { kPassOn, kChange, kReflect, kReplay, kSay, kCount };

// One side, what it said, and what it was told.
template <class Side>
struct Party {
  Side side;
  Bytes said;
  Bytes heard;
  std::size_t passed_on = 0;  // of what it said

  void say(const Bytes& bytes) { said.insert(said.end(), bytes.begin(), bytes.end()); }
  void hear(std::span<const std::byte> bytes) {
    require(side.wanted() <= Handshake::kMaxReason, "a handshake wants a bounded number of bytes");
    const std::size_t before = bytes.size();
    std::span<const std::byte> left = bytes;
    while (!left.empty() && side.state() == HandshakeState::kRunning) say(side.feed(left));
    heard.insert(heard.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(before - left.size()));
    for (const char c : side.reason()) require(c >= 0x20 && c <= 0x7e, "a reason is printable");
    require(side.reason().size() <= Handshake::kMaxReason, "a reason is bounded");
  }
};

const Key& secret() {
  static const Key key = Key::from_text("the secret of this job");
  return key;
}

struct Recorded {
  Bytes client;
  Bytes server;
};

// An honest conversation of earlier, as it can be recorded: what the client said, what the server said.
Recorded conversation(const Hello& hello, bool let_in) {
  Party<ClientHandshake> client{ClientHandshake(hello, secret()), {}, {}};
  Party<ServerHandshake> server{ServerHandshake(hello.server_rank, hello.communicator, secret()), {}, {}};
  client.say(client.side.start());
  server.hear(client.said);
  client.hear(server.said);
  server.hear(std::span(client.said).subspan(Handshake::kHelloBytes));
  server.say(let_in ? server.side.accept() : server.side.reject(ErrorCode::kMismatch, "not today"));
  return {client.said, server.said};
}

Recorded welcome;
Recorded refusal;

// Passes on, to `to`, what `from` says, in the way that the input chooses.
template <class To, class From>
void meddle(Input& input, Party<To>& to, Party<From>& from, std::span<const std::byte> recorded) {
  switch (static_cast<Move>(input.below(static_cast<unsigned>(Move::kCount)))) {
    case Move::kPassOn:
    case Move::kChange: {
      Bytes bytes(from.said.begin() + static_cast<std::ptrdiff_t>(from.passed_on), from.said.end());
      const std::uint8_t control = input.byte();
      if (control != 0 && control < bytes.size()) bytes.resize(control);
      from.passed_on += bytes.size();
      if (!bytes.empty() && input.below(4) == 1)
        bytes[input.byte() % bytes.size()] ^= static_cast<std::byte>(1 << input.below(8));
      to.hear(bytes);
      break;
    }
    case Move::kReflect:
      to.hear(Bytes(to.said));
      break;
    case Move::kReplay: {
      const std::size_t begin = input.byte() % (recorded.size() + 1);
      to.hear(recorded.subspan(begin, std::min<std::size_t>(input.byte(), recorded.size() - begin)));
      break;
    }
    default:
      to.hear(input.blob());
  }
}

}  // namespace

void prepare() {
  welcome = conversation({Purpose::kMeet, 1, 0, 4, {}}, true);
  refusal = conversation({Purpose::kMeet, 1, 0, 4, {}}, false);
}

void run(std::span<const std::byte> bytes) {
  Input input(bytes);
  Hello hello{Purpose::kMeet, 1, 0, 4, {}};
  hello.purpose = static_cast<Purpose>(1 + input.below(3));
  const Recorded& before = input.below(2) == 0 ? welcome : refusal;
  const bool let_in = input.below(4) != 3;

  Party<ClientHandshake> client{ClientHandshake(hello, secret()), {}, {}};
  Party<ServerHandshake> server{ServerHandshake(0, hello.communicator, secret()), {}, {}};
  client.say(client.side.start());
  while (!input.ended()) {
    if (input.below(2) == 0) {
      meddle(input, server, client, before.client);
    } else {
      meddle(input, client, server, before.server);
    }
    if (server.side.state() == HandshakeState::kProven) {
      require(server.heard == client.said, "a server believes only what its client said");
      server.say(let_in ? server.side.accept() : server.side.reject(ErrorCode::kMismatch, "not today"));
    }
  }
  if (client.side.state() == HandshakeState::kAccepted) {
    require(client.heard == server.said, "a client believes only what its server said");
    require(server.side.state() == HandshakeState::kAccepted, "nobody is accepted by half");
    const SessionKeys here = client.side.session();
    const SessionKeys there = server.side.session();
    require(equal_in_constant_time(here.sending.bytes(), there.receiving.bytes()) &&
                equal_in_constant_time(here.receiving.bytes(), there.sending.bytes()),
            "both have the same keys");
  }
}

std::vector<Bytes> seeds() {
  const auto text = [](std::initializer_list<int> values) {
    Bytes bytes;
    for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
  };
  return {
      text({0, 0, 0, /**/ 0, 0, 0, 0, /**/ 1, 0, 0, 0, /**/ 0, 0, 0, 0, /**/ 1, 0, 0, 0}),  // all passed on
      text({1, 1, 3, /**/ 0, 0, 0, 0, /**/ 1, 0, 0, 0, /**/ 0, 0, 0, 0, /**/ 1, 0, 0, 0}),  // turned away
      text({2, 0, 0, /**/ 0, 0, 9, 0, /**/ 0, 0, 0, 0, /**/ 1, 0, 1, 0, /**/ 1, 0, 0, 0, /**/ 0, 0, 0, 1, 5, 1}),
      text({0, 0, 0, /**/ 0, 3, 0, 104, /**/ 1, 3, 0, 255}),                                // replayed
      text({0, 0, 0, /**/ 0, 2, /**/ 1, 2, /**/ 1, 4, 8, 3, 1, 4, 0, 'a', 'b', 'c', 'd'}),  // reflected, and a refusal
  };
}

}  // namespace tutti::fuzz
