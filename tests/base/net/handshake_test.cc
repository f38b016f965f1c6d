#include "base/net/handshake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/bytes.h"

namespace tutti {
namespace {

using Bytes = std::vector<std::byte>;

const Key kSecret = Key::from_text("the secret of this job");
const auto kCommunicator = communicator_name(Nonce{}, "job 1");

Hello hello(std::uint32_t client = 3, std::uint32_t server = 0, Purpose purpose = Purpose::kMeet) {
  return {.purpose = purpose, .client_rank = client, .server_rank = server, .ranks = 8, .communicator = kCommunicator};
}

template <class Side>
Bytes feed(Side& side, Bytes bytes) {
  std::span<const std::byte> data = bytes;
  return side.feed(data);
}

Bytes text(std::string_view characters) {
  const auto bytes = std::as_bytes(std::span(characters.data(), characters.size()));
  return {bytes.begin(), bytes.end()};
}

TEST(Handshake, AcceptsWhoKnowsTheSecretOnBothSides) {
  for (const Purpose purpose : {Purpose::kMeet, Purpose::kTree, Purpose::kData}) {
    ClientHandshake client(hello(3, 5, purpose), kSecret);
    ServerHandshake server(5, kCommunicator, kSecret);
    const Bytes challenge = feed(server, client.start());
    EXPECT_EQ(server.state(), HandshakeState::kRunning);
    const Bytes proof = feed(client, challenge);
    EXPECT_TRUE(feed(server, proof).empty());
    ASSERT_EQ(server.state(), HandshakeState::kProven);
    EXPECT_EQ(server.hello().client_rank, 3u);
    EXPECT_EQ(server.hello().ranks, 8u);
    EXPECT_EQ(server.hello().purpose, purpose);
    EXPECT_TRUE(feed(client, server.accept()).empty());
    EXPECT_EQ(client.state(), HandshakeState::kAccepted);
    EXPECT_EQ(server.state(), HandshakeState::kAccepted);
  }
}

TEST(Handshake, GivesBothSidesTheKeysOfThisConnectionAndOfNoOther) {
  std::vector<SessionKeys> clients;
  for (int i = 0; i < 2; ++i) {
    ClientHandshake client(hello(), kSecret);
    ServerHandshake server(0, kCommunicator, kSecret);
    feed(server, feed(client, feed(server, client.start())));
    feed(client, server.accept());
    const auto same = [](const Key& a, const Key& b) { return equal_in_constant_time(a.bytes(), b.bytes()); };
    clients.push_back(client.session());
    EXPECT_TRUE(same(clients.back().sending, server.session().receiving));
    EXPECT_TRUE(same(clients.back().receiving, server.session().sending));
    EXPECT_FALSE(same(clients.back().sending, clients.back().receiving));
  }
  EXPECT_FALSE(equal_in_constant_time(clients[0].sending.bytes(), clients[1].sending.bytes()));
}

TEST(Handshake, TakesBytesOneByOneAndNoneThatAreNotItsOwn) {
  ClientHandshake client(hello(), kSecret);
  ServerHandshake server(0, kCommunicator, kSecret);
  Bytes to_client;
  for (const std::byte byte : client.start()) {
    EXPECT_GT(server.wanted(), 0u);
    to_client = feed(server, {byte});
  }
  Bytes to_server;
  for (const std::byte byte : to_client) {
    const Bytes out = feed(client, {byte});
    to_server.insert(to_server.end(), out.begin(), out.end());
  }
  for (const std::byte byte : to_server) feed(server, {byte});
  Bytes last = server.accept();
  const std::size_t own = last.size();
  last.resize(own + 10);  // what the server says next
  std::span<const std::byte> data = last;
  client.feed(data);
  EXPECT_EQ(client.state(), HandshakeState::kAccepted);
  EXPECT_EQ(data.size(), 10u);
  EXPECT_EQ(client.wanted(), 0u);
}

TEST(Handshake, TellsTheClientWhyTheServerSaysNo) {
  ClientHandshake client(hello(), kSecret);
  ServerHandshake server(0, kCommunicator, kSecret);
  feed(server, feed(client, feed(server, client.start())));
  ASSERT_EQ(server.state(), HandshakeState::kProven);
  feed(client, server.reject(ErrorCode::kMismatch, "rank 3 is already here\n(node1 pid 7)" + std::string(600, 'x')));
  ASSERT_EQ(client.state(), HandshakeState::kRejected);
  EXPECT_EQ(client.code(), ErrorCode::kMismatch);
  EXPECT_TRUE(client.reason().starts_with("rank 3 is already here?(node1 pid 7)"));
  EXPECT_EQ(client.reason().size(), Handshake::kMaxReason);
}

TEST(Handshake, RefusesAClientWithAnotherSecret) {
  ClientHandshake client(hello(), Key::from_text("another secret"));
  ServerHandshake server(0, kCommunicator, kSecret);
  feed(client, feed(server, client.start()));
  ASSERT_EQ(client.state(), HandshakeState::kRejected) << "the server's MAC is wrong for it";
  EXPECT_EQ(client.code(), ErrorCode::kUnauthorized);
  const Bytes answer = feed(server, Bytes(32));
  EXPECT_EQ(server.state(), HandshakeState::kRejected);
  EXPECT_FALSE(answer.empty()) << "it is told why";
}

TEST(Handshake, RefusesAServerThatAcceptsWithoutTheSecret) {
  ClientHandshake client(hello(), kSecret);
  Bytes accept(33);
  accept[0] = std::byte{2};
  feed(client, accept);
  EXPECT_EQ(client.state(), HandshakeState::kRejected);
  ClientHandshake second(hello(), kSecret);
  ServerHandshake server(0, kCommunicator, kSecret);
  feed(second, feed(server, second.start()));
  feed(second, accept);
  EXPECT_EQ(second.state(), HandshakeState::kRejected);
  EXPECT_EQ(second.code(), ErrorCode::kUnauthorized);
}

TEST(Handshake, RefusesItsOwnMessagesReflected) {
  ServerHandshake server(0, kCommunicator, kSecret);
  ClientHandshake client(hello(0, 0), kSecret);
  const Bytes challenge = feed(server, client.start());
  // The server's MAC comes back as the proof.
  feed(server, Bytes(challenge.end() - 32, challenge.end()));
  EXPECT_EQ(server.state(), HandshakeState::kRejected);
  // The client's hello and proof come back to it.
  ClientHandshake other(hello(), kSecret);
  feed(other, other.start());
  EXPECT_EQ(other.state(), HandshakeState::kRejected);
  // The client's proof comes back in place of the accept.
  ClientHandshake third(hello(), kSecret);
  ServerHandshake second(0, kCommunicator, kSecret);
  Bytes proof = feed(third, feed(second, third.start()));
  proof.insert(proof.begin(), std::byte{2});
  feed(third, proof);
  EXPECT_EQ(third.state(), HandshakeState::kRejected);
}

TEST(Handshake, RefusesAReplayOnBothSides) {
  ClientHandshake client(hello(), kSecret);
  ServerHandshake server(0, kCommunicator, kSecret);
  const Bytes challenge = feed(server, client.start());
  const Bytes proof = feed(client, challenge);
  feed(server, proof);
  ASSERT_EQ(server.state(), HandshakeState::kProven);
  const Bytes accept = server.accept();

  ServerHandshake again(0, kCommunicator, kSecret);
  feed(again, client.start());
  feed(again, proof);
  EXPECT_EQ(again.state(), HandshakeState::kRejected);

  ClientHandshake fresh(hello(), kSecret);
  feed(fresh, challenge);
  EXPECT_EQ(fresh.state(), HandshakeState::kRejected);

  ClientHandshake third(hello(), kSecret);
  ServerHandshake partner(0, kCommunicator, kSecret);
  feed(third, feed(partner, third.start()));
  feed(third, accept);
  EXPECT_EQ(third.state(), HandshakeState::kRejected);
}

TEST(Handshake, RefusesAHelloThatWasChangedOnTheWay) {
  ClientHandshake original(hello(), kSecret);
  const Bytes start = original.start();
  for (std::size_t i = 0; i < start.size(); ++i) {
    Bytes changed = start;
    changed[i] ^= std::byte{1};
    ClientHandshake client(hello(), kSecret);
    ServerHandshake server(0, kCommunicator, kSecret);
    const Bytes challenge = feed(server, changed);
    if (server.state() == HandshakeState::kRunning) {
      // Neither side believes it: the client's MACs are over what it said.
      feed(server, feed(original, challenge));
      EXPECT_NE(server.state(), HandshakeState::kProven) << i;
      original = ClientHandshake(hello(), kSecret);
    } else {
      EXPECT_EQ(server.state(), HandshakeState::kRejected) << i;
    }
  }
}

TEST(Handshake, KeepsPurposesAndCommunicatorsApart) {
  const Key meet = handshake_key(kSecret, kCommunicator, Purpose::kMeet);
  const Key data = handshake_key(kSecret, kCommunicator, Purpose::kData);
  const Key other = handshake_key(kSecret, communicator_name(Nonce{}, "job 2"), Purpose::kMeet);
  EXPECT_FALSE(equal_in_constant_time(meet.bytes(), data.bytes()));
  EXPECT_FALSE(equal_in_constant_time(meet.bytes(), other.bytes()));
  EXPECT_NE(communicator_name(Nonce{}, "job 1"), communicator_name(Nonce{std::byte{1}}, "job 1"));

  Hello wrong = hello();
  wrong.communicator = communicator_name(Nonce{}, "job 2");
  ClientHandshake client(wrong, kSecret);
  ServerHandshake server(0, kCommunicator, kSecret);
  feed(client, feed(server, client.start()));
  EXPECT_EQ(client.state(), HandshakeState::kRejected);
  EXPECT_NE(client.reason().find("another job"), std::string::npos) << client.reason();
}

TEST(Handshake, TellsAClientThatItReachedAnotherRank) {
  ClientHandshake client(hello(3, 6), kSecret);
  ServerHandshake server(5, kCommunicator, kSecret);
  feed(client, feed(server, client.start()));
  EXPECT_EQ(client.state(), HandshakeState::kRejected);
  EXPECT_EQ(client.reason(), "rank 6 is not here: this is rank 5");
}

TEST(Handshake, TakesTheKindOfARefusalFromNobodyWhoHasProvenNothing) {
  constexpr std::uint8_t kReject = 3;
  for (const std::string& reason : {std::string("no"), std::string()}) {
    ByteWriter refusal;
    refusal.u8(kReject);
    refusal.u8(static_cast<std::uint8_t>(ErrorCode::kMismatch));
    refusal.u16(static_cast<std::uint16_t>(reason.size()));
    refusal.raw(text(reason));
    ClientHandshake client(hello(), kSecret);
    feed(client, refusal.take());
    EXPECT_EQ(client.state(), HandshakeState::kRejected);
    EXPECT_EQ(client.code(), ErrorCode::kUnauthorized);
    EXPECT_FALSE(client.proven());
  }
}

TEST(Handshake, NamesBothVersionsWhenTheyDiffer) {
  ClientHandshake client(hello(), kSecret);
  Bytes start = client.start();
  start[8] = std::byte{9};
  ServerHandshake server(0, kCommunicator, kSecret);
  feed(client, feed(server, start));
  EXPECT_EQ(client.code(), ErrorCode::kUnauthorized) << "anybody may say so";
  EXPECT_NE(client.reason().find("version 9 meets version 1"), std::string::npos) << client.reason();
}

TEST(Handshake, F17DropsStrangersAtTheirFirstBytesWithoutAnAnswer) {
  for (const Bytes& noise :
       {text("GET / HTTP/1.0\r\n\r\n"), Bytes(64, std::byte{0xff}), Bytes(1), text("\x16\x03\x01"), text("TUTTIHS2")}) {
    ServerHandshake server(0, kCommunicator, kSecret);
    EXPECT_TRUE(feed(server, noise).empty());
    EXPECT_EQ(server.state(), HandshakeState::kRejected);
    EXPECT_EQ(server.wanted(), 0u);
    EXPECT_TRUE(feed(server, noise).empty()) << "and stays that way";
  }
}

TEST(Handshake, F17SurvivesAnythingAServerMaySay) {
  // A reject with a length beyond the limit, of zero, and one that never comes.
  for (const auto& [low, high] : {std::pair(0xff, 0xff), std::pair(0, 0), std::pair(0x91, 0x01)}) {
    ClientHandshake client(hello(), kSecret);
    feed(client, {std::byte{3}, std::byte{200}, static_cast<std::byte>(low), static_cast<std::byte>(high)});
    EXPECT_EQ(client.state(), HandshakeState::kRejected);
    EXPECT_EQ(client.code(), ErrorCode::kUnauthorized) << "a code that does not exist";
  }
  ClientHandshake waiting(hello(), kSecret);
  feed(waiting, {std::byte{3}, std::byte{0}, std::byte{10}, std::byte{0}, std::byte{'a'}});
  EXPECT_EQ(waiting.state(), HandshakeState::kRunning);
  EXPECT_EQ(waiting.wanted(), 9u);
}

TEST(Handshake, F17SurvivesRandomBytesAndRandomDamage) {
  std::mt19937 random(20);
  const auto byte = [&random] { return static_cast<std::byte>(random()); };
  for (int round = 0; round < 3000; ++round) {
    ClientHandshake client(hello(), kSecret);
    ServerHandshake server(0, kCommunicator, kSecret);
    Bytes to_server = client.start();
    if (round % 3 == 0) to_server.resize(random() % 200);
    if (round % 3 == 0)
      std::ranges::generate(to_server.begin() + std::min<std::ptrdiff_t>(8, std::ssize(to_server)), to_server.end(),
                            byte);
    Bytes to_client = feed(server, to_server);
    if (!to_client.empty())
      to_client[random() % to_client.size()] ^= std::byte{static_cast<unsigned char>(1 + random() % 255)};
    Bytes noise(random() % 600);
    std::ranges::generate(noise, byte);
    if (round % 3 == 2) noise[0] = std::byte{static_cast<unsigned char>(random() % 5)};
    feed(client, round % 3 == 1 ? to_client : noise);
    feed(server, noise);
    EXPECT_NE(client.state(), HandshakeState::kAccepted);
    EXPECT_NE(server.state(), HandshakeState::kProven);
    EXPECT_LE(client.wanted(), Handshake::kMaxReason);
    EXPECT_LE(client.reason().size(), Handshake::kMaxReason);
  }
}

TEST(Key, GivesOtherKeysForOtherPurposesAndTheSameForTheSame) {
  EXPECT_TRUE(equal_in_constant_time(kSecret.derive("a").bytes(), kSecret.derive("a").bytes()));
  EXPECT_FALSE(equal_in_constant_time(kSecret.derive("a").bytes(), kSecret.derive("b").bytes()));
  EXPECT_FALSE(equal_in_constant_time(kSecret.derive("a", text("b")).bytes(), kSecret.derive("ab").bytes()));
  EXPECT_FALSE(equal_in_constant_time(Key::random().bytes(), Key::random().bytes()));
  EXPECT_NE(kSecret.authenticate("r", text("ab"), text("c")), kSecret.authenticate("r", text("a"), text("bc")))
      << "parts keep their borders";
  EXPECT_TRUE(Key().empty());
  EXPECT_FALSE(kSecret.empty());
  EXPECT_NE(random_nonce(), random_nonce());
}

}  // namespace
}  // namespace tutti
