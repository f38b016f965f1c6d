// The parser, and what a transport makes of a peer that does not keep to the protocol.

#include <sys/ioctl.h>

#include <random>
#include <thread>

#include "transport/tcp/frame_reader.h"
#include "transport/tcp_support.h"

namespace tutti {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& stream, const FrameHeader& header, std::size_t payload_bytes = 0) {
  const std::size_t at = stream.size();
  stream.resize(at + FrameHeader::kBytes);
  header.encode(stream.data() + at);
  const Bytes payload = pattern(payload_bytes, header.number);
  stream.insert(stream.end(), payload.begin(), payload.end());
}

// Accepts messages of up to 40 KB and keeps them.
struct Collector final : FrameSink {
  const char* begin(const FrameHeader& header, std::byte*& destination) override {
    if (header.kind != FrameKind::kMessage) return nullptr;
    if (header.length > 40000) return "too much";
    buffer.assign(header.length, std::byte{0});
    destination = buffer.data();
    return nullptr;
  }
  void finish(const FrameHeader& header) override {
    headers.push_back(header);
    if (header.kind == FrameKind::kMessage) messages.push_back(buffer);
  }
  Bytes buffer;
  std::vector<FrameHeader> headers;
  std::vector<Bytes> messages;
};

// Feeds the stream in pieces of at most `piece` bytes, as a socket would give them.
const char* feed(FrameReader& reader, const Bytes& stream, std::size_t piece, FrameSink& sink) {
  for (std::size_t at = 0; at < stream.size();) {
    const auto space = reader.space();
    const std::size_t bytes = std::min({piece, stream.size() - at, space.size()});
    std::memcpy(space.data(), stream.data() + at, bytes);
    at += bytes;
    if (const char* problem = reader.filled(bytes, sink)) return problem;
  }
  return nullptr;
}

TEST(TcpFrameReader, FindsTheSameFramesHoweverTheStreamIsCut) {
  Bytes stream;
  const std::size_t lengths[] = {0, 1, 96, 8150, 8192, 40000, 3};
  std::uint64_t number = 0;
  for (const std::size_t length : lengths) {
    ++number;
    append(stream, {.length = static_cast<std::uint32_t>(length), .number = number, .signature = ~number}, length);
    append(stream, {.kind = FrameKind::kCredit, .channel = 3, .credit = number});
  }
  for (const std::size_t piece : {1u, 7u, 31u, 32u, 33u, 1000u, 8191u, 100000u}) {
    FrameReader reader;
    Collector sink;
    ASSERT_EQ(feed(reader, stream, piece, sink), nullptr);
    EXPECT_TRUE(reader.between_frames());
    ASSERT_EQ(sink.messages.size(), std::size(lengths));
    ASSERT_EQ(sink.headers.size(), 2 * std::size(lengths));
    for (std::size_t i = 0; i < std::size(lengths); ++i) {
      EXPECT_TRUE(sink.messages[i] == pattern(lengths[i], i + 1)) << "message " << i << " in pieces of " << piece;
      EXPECT_EQ(sink.headers[2 * i].signature, ~(i + 1));
      EXPECT_EQ(sink.headers[2 * i + 1].credit, i + 1);
    }
  }
}

TEST(TcpFrameReader, SurvivesRandomBytesAndRandomlyDamagedStreams) {
  std::mt19937_64 random(20261129);
  Bytes good;
  for (std::uint64_t n = 1; n < 20; ++n) append(good, {.length = 500, .number = n}, 500);
  for (int round = 0; round < 2000; ++round) {
    Bytes stream = good;
    if (round % 2 == 0) {
      for (std::byte& b : stream) b = static_cast<std::byte>(random());
      stream[0] = std::byte{'T'}, stream[1] = std::byte{'t'}, stream[2] = std::byte{1};
    }
    for (int i = 0; i < 5; ++i) stream[random() % stream.size()] = static_cast<std::byte>(random());
    FrameReader reader;
    Collector sink;
    feed(reader, stream, 1 + random() % 3000, sink);
    for (const Bytes& message : sink.messages) EXPECT_LE(message.size(), 40000u);
  }
}

// Rank 0 with a transport; the test holds the other end of its connection to rank 1 and writes bytes into it.
class TcpPeerFrames : public testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kPatience{20'000};

  static TcpLimits limits() {
    TcpLimits limits;
    limits.window = 2;
    limits.channels = 3;
    limits.max_message_bytes = 1000;
    limits.lost_grace = std::chrono::milliseconds(30);
    limits.close_wait = std::chrono::milliseconds(0);
    return limits;
  }

  // What the communicator of rank 0 fails with after these bytes and, if asked, the end of the stream; "" if it lives.
  // fails: what is expected, and is waited for.
  static std::string outcome(const Bytes& stream, bool fails, bool end = false, bool expect = false) {
    Health health(2);
    TcpTransport tcp(
        0, 2, health, [](int) {}, limits());
    Endpoint endpoint;
    endpoint.peer = 1;
    tcp.add_endpoint(endpoint);
    auto [mine, theirs] = loopback_pair();
    tcp.attach(1, std::move(mine), true);
    std::byte buffer[4];
    if (expect) tcp.post(endpoint, buffer, 4, 1);
    EXPECT_EQ(::send(theirs.get(), stream.data(), stream.size(), MSG_NOSIGNAL), std::ssize(stream));
    if (end) ::shutdown(theirs.get(), SHUT_WR);
    const Deadline deadline = Clock::now() + (fails ? kPatience : std::chrono::milliseconds(end ? 100 : 30));
    while (!health.failed() && Clock::now() < deadline) tcp.progress();
    if (!health.failed()) return "";
    EXPECT_EQ(health.reason().peer(), 1);
    EXPECT_EQ(health.reason().code(), ErrorCode::kRemote);
    return health.reason().what();
  }
};

TEST_F(TcpPeerFrames, ThatAreMalformedFailTheCommunicatorAndSayWhy) {
  const FrameHeader good{.length = 10, .number = 1, .signature = 9};
  struct Case {
    const char* name;
    FrameHeader header;
    const char* expected;
  };
  auto with = [&](auto change) {
    FrameHeader header = good;
    change(header);
    return header;
  };
  const Case cases[] = {
      {"good", good, ""},
      {"kind 0", with([](auto& h) { h.kind = FrameKind{0}; }), "something that is no frame"},
      {"kind 4", with([](auto& h) { h.kind = FrameKind{4}; }), "something that is no frame"},
      {"kind 255", with([](auto& h) { h.kind = FrameKind{255}; }), "something that is no frame"},
      {"channel 3 of 3", with([](auto& h) { h.channel = 3; }), "unknown channel"},
      {"channel 255", with([](auto& h) { h.channel = 255; }), "unknown channel"},
      {"longer than agreed", with([](auto& h) { h.length = 1001; }), "longer than all ranks agreed on"},
      {"4 GiB", with([](auto& h) { h.length = 0xFFFFFFFF; }), "longer than all ranks agreed on"},
      {"number 0", with([](auto& h) { h.number = 0; }), "out of turn"},
      {"number 2 first", with([](auto& h) { h.number = 2; }), "out of turn"},
      {"last number", with([](auto& h) { h.number = ~std::uint64_t{0}; }), "out of turn"},
      {"credit for nothing sent", with([](auto& h) { h.credit = 1; }), "never sent"},
      {"credit with length", with([](auto& h) { h.kind = FrameKind::kCredit; }), "something that is no frame"},
      {"credit alone", {.kind = FrameKind::kCredit, .credit = 7}, "never sent"},
      {"accept of an accepted one", {.kind = FrameKind::kAccept}, "an answer to a connection that needs none"},
      {"accept with credit", {.kind = FrameKind::kAccept, .credit = 1}, "something that is no frame"},
  };
  for (const Case& c : cases) {
    Bytes stream;
    append(stream, c.header, 10);
    const std::string message = outcome(stream, *c.expected != 0);
    if (*c.expected == 0) {
      EXPECT_EQ(message, "") << c.name;
    } else {
      EXPECT_NE(message.find(c.expected), std::string::npos) << c.name << ": " << message;
      EXPECT_NE(message.find("rank 1"), std::string::npos) << c.name << ": " << message;
    }
  }
  Bytes other_magic;
  append(other_magic, good, 10);
  other_magic[1] = std::byte{'T'};
  EXPECT_NE(outcome(other_magic, true).find("something that is no frame"), std::string::npos);
}

TEST_F(TcpPeerFrames, BeyondTheWindowFailTheCommunicator) {
  Bytes stream;
  for (std::uint64_t n = 1; n <= 2; ++n) append(stream, {.length = 500, .number = n}, 500);
  EXPECT_EQ(outcome(stream, false), "");
  append(stream, {.length = 500, .number = 3}, 500);
  EXPECT_NE(outcome(stream, true).find("more messages than it was given room for"), std::string::npos);
}

TEST_F(TcpPeerFrames, OfAChannelNotYetUsedHereAreKept) {
  Health health(2);
  TcpTransport tcp(
      0, 2, health, [](int) {}, limits());
  auto [mine, theirs] = loopback_pair();
  const int taken = mine.get();
  tcp.attach(1, std::move(mine), false);
  Bytes stream;
  append(stream, {.channel = 2, .length = 500, .number = 1}, 500);
  ASSERT_EQ(::send(theirs.get(), stream.data(), stream.size(), 0), std::ssize(stream));
  const Deadline deadline = Clock::now() + kPatience;
  const auto queued = [](int socket, unsigned long which) {
    int bytes = 0;
    EXPECT_EQ(::ioctl(socket, which, &bytes), 0);
    return bytes;
  };
  while (queued(theirs.get(), TIOCOUTQ) > 0 && Clock::now() < deadline) std::this_thread::yield();
  while (queued(taken, FIONREAD) > 0 && Clock::now() < deadline) tcp.progress();
  Endpoint endpoint;
  endpoint.peer = 1;
  endpoint.channel = 2;
  tcp.add_endpoint(endpoint);
  ASSERT_NE(arrived(endpoint), nullptr);
  EXPECT_TRUE(payload_of(endpoint, *arrived(endpoint)) == pattern(500, 1));
}

TEST_F(TcpPeerFrames, CutAtAnyByteNameThePeerAndCutBetweenFramesDoNot) {
  Bytes stream;
  append(stream, {.length = 40, .number = 1}, 40);
  for (std::size_t length = 0; length <= stream.size(); ++length) {
    const bool cut = length > 0 && length < stream.size();
    const std::string message = outcome(Bytes(stream.begin(), stream.begin() + length), cut, true);
    if (!cut) {
      EXPECT_EQ(message, "") << "after " << length << " bytes";
    } else {
      EXPECT_NE(message.find("the connection to rank 1 (127.0.0.1:"), std::string::npos) << message;
      EXPECT_NE(message.find(") was closed by it"), std::string::npos) << "after " << length << " bytes: " << message;
    }
  }
  EXPECT_NE(outcome({}, true, true, true), "") << "a posted message is expected";
}

TEST_F(TcpPeerFrames, BeforeTheAnswerFailTheHigherRank) {
  // Rank 1 opened the connection, so rank 0 answers first: here the test plays rank 0.
  for (const bool answered : {false, true}) {
    Health health(2);
    TcpTransport tcp(
        1, 2, health, [](int) {}, limits());
    auto [mine, theirs] = loopback_pair();
    tcp.attach(0, std::move(mine), true);
    Bytes stream;
    if (answered) append(stream, {.kind = FrameKind::kAccept});
    append(stream, {.length = 40, .number = 1}, 40);
    ASSERT_EQ(::send(theirs.get(), stream.data(), stream.size(), 0), std::ssize(stream));
    const Deadline deadline = Clock::now() + (answered ? std::chrono::milliseconds(30) : kPatience);
    while (!health.failed() && Clock::now() < deadline) tcp.progress();
    EXPECT_EQ(health.failed(), !answered);
  }
}

}  // namespace
}  // namespace tutti
