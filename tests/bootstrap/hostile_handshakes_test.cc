// Whoever does not know the secret gains nothing: by stretching a handshake, saying a recorded one again, or passing
// one on and then changing what is said.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/net/handshake.h"
#include "bootstrap/challenge.h"
#include "bootstrap/connection.h"
#include "door.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

TEST(Hostile, F15BytesThatComeSlowlyDoNotExtendTheTimeOfAChallenge) {
  EventLoop loop;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const UniqueFd stranger(ends[0]);
  std::promise<Challenge::Outcome> promise;
  std::shared_ptr<Challenge> challenge;
  loop.call([&] {
    challenge = Challenge::as_server(loop, UniqueFd(ends[1]), credentials(), {}, {}, milliseconds(300),
                                     [&](Challenge::Outcome outcome) { promise.set_value(std::move(outcome)); });
  });
  std::future<Challenge::Outcome> outcome = promise.get_future();
  // The beginning of a rank's hello, a byte at a time: it would take seconds.
  const std::string hello = "TUTTIHS1" + std::string(64, '\0');
  std::size_t sent = 0;
  while (outcome.wait_for(milliseconds(40)) == std::future_status::timeout && sent < hello.size()) {
    static_cast<void>(::send(stranger.get(), &hello[sent++], 1, MSG_NOSIGNAL));
  }
  const Challenge::Outcome end = outcome.get();
  EXPECT_FALSE(end.socket);
  EXPECT_EQ(end.code, ErrorCode::kTimeout) << end.trouble;
  EXPECT_LT(sent, hello.size());
  loop.call([&] { challenge.reset(); });
}

// What a rank once said, said again by somebody else.
TEST(Hostile, AHandshakeThatWasRecordedOpensNoDoor) {
  EventLoop loop;
  const Credentials own = credentials();
  const Door door(loop, own);
  const auto connect = [&] {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), door.address().data(), door.address().size()), 0);
    return socket;
  };
  const auto receive = [](const UniqueFd& socket, std::size_t most) {
    std::vector<std::byte> bytes(most);
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  };
  std::vector<std::byte> said;
  {
    const UniqueFd socket = connect();
    ClientHandshake client({Purpose::kMeet, 1, 0, 2, own.communicator}, own.secret);
    std::vector<std::byte> out = client.start();
    while (client.wanted() > 0) {
      said.insert(said.end(), out.begin(), out.end());
      EXPECT_EQ(::send(socket.get(), out.data(), out.size(), 0), static_cast<ssize_t>(out.size()));
      const std::vector<std::byte> in = receive(socket, client.wanted());
      ASSERT_FALSE(in.empty());
      std::span<const std::byte> data = in;
      out = client.feed(data);
    }
    ASSERT_EQ(client.state(), HandshakeState::kAccepted);
  }
  const UniqueFd attacker = connect();
  ASSERT_EQ(::send(attacker.get(), said.data(), said.size(), 0), static_cast<ssize_t>(said.size()));
  constexpr std::byte kChallenge{1};
  constexpr std::byte kReject{3};
  std::vector<std::byte> answer;
  while (true) {
    const std::vector<std::byte> more = receive(attacker, 1000);
    if (more.empty()) break;
    answer.insert(answer.end(), more.begin(), more.end());
  }
  ASSERT_GT(answer.size(), 65u);
  EXPECT_EQ(answer[0], kChallenge);
  EXPECT_EQ(answer[65], kReject) << "not accepted";
}

// A rank and the root have passed the challenge through somebody who got between them, and now the rank speaks.
class Relay {
 public:
  Relay() {
    ClientHandshake client({Purpose::kMeet, 1, 0, 2, own_.communicator}, own_.secret);
    ServerHandshake server(0, own_.communicator, own_.secret);
    std::span<const std::byte> data;
    const auto feed = [&data](auto& side, const std::vector<std::byte>& bytes) {
      data = bytes;
      return side.feed(data);
    };
    feed(server, feed(client, feed(server, client.start())));
    feed(client, server.accept());
    loop_.call([&] {
      rank_ = std::make_shared<Connection>(loop_, ProvenSocket{pair(to_rank_), client.session()}, kLimit);
      root_ = std::make_shared<Connection>(loop_, ProvenSocket{pair(to_root_), server.session()}, kLimit);
      rank_->start([this](FrameType, auto payload) { heard_.set_value(text_of(payload)); },
                   [this](const std::string& trouble) { heard_.set_value("end: " + trouble); });
      root_->start([this](FrameType, auto payload) { heard_.set_value(text_of(payload)); },
                   [this](const std::string& trouble) { heard_.set_value("end: " + trouble); });
    });
  }
  ~Relay() {
    loop_.call([&] {
      rank_->close();
      root_->close();
    });
  }

  // The bytes that the rank sends for it.
  std::vector<std::byte> say(const std::string& text) {
    loop_.call([&] { rank_->send(FrameType::kIntroduction, std::as_bytes(std::span(text.data(), text.size()))); });
    std::vector<std::byte> frame(kFrameHeaderBytes + text.size() + kFrameTagBytes);
    EXPECT_EQ(::recv(to_rank_.get(), frame.data(), frame.size(), MSG_WAITALL), static_cast<ssize_t>(frame.size()));
    return frame;
  }
  // What the root, or the rank itself, makes of bytes.
  std::string root_hears(std::span<const std::byte> frame) { return hears(to_root_, frame); }
  std::string rank_hears(std::span<const std::byte> frame) { return hears(to_rank_, frame); }

 private:
  static constexpr std::size_t kLimit = 1024;

  static UniqueFd pair(UniqueFd& far) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    far = UniqueFd(ends[0]);
    EXPECT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    return UniqueFd(ends[1]);
  }
  static std::string text_of(std::span<const std::byte> payload) {
    return {reinterpret_cast<const char*>(payload.data()), payload.size()};
  }
  std::string hears(const UniqueFd& socket, std::span<const std::byte> frame) {
    heard_ = std::promise<std::string>();
    EXPECT_EQ(::send(socket.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    std::string text = heard_.get_future().get();
    loop_.call([] {});  // until the promise is no longer in use
    return text;
  }

  Credentials own_ = credentials();
  EventLoop loop_;
  UniqueFd to_rank_;
  UniqueFd to_root_;
  std::shared_ptr<Connection> rank_;
  std::shared_ptr<Connection> root_;
  std::promise<std::string> heard_;
};

TEST(Hostile, WhoeverPassedTheChallengeOnCanChangeNothingThatIsSaid) {
  Relay honest;
  EXPECT_EQ(honest.root_hears(honest.say("I am at 10.1.0.1")), "I am at 10.1.0.1");
  EXPECT_EQ(honest.root_hears(honest.say("")), "");
  Relay changing;
  std::vector<std::byte> frame = changing.say("I am at 10.1.0.1");
  frame[kFrameHeaderBytes + 15] = std::byte{'9'};
  EXPECT_NE(changing.root_hears(frame).find("something between the two changed"), std::string::npos);
}

TEST(Hostile, WhoeverPassedTheChallengeOnCanRepeatLeaveOutAndReflectNothing) {
  Relay repeating;
  const std::vector<std::byte> frame = repeating.say("first");
  EXPECT_EQ(repeating.root_hears(frame), "first");
  EXPECT_TRUE(repeating.root_hears(frame).starts_with("end: something"));
  Relay leaving_out;
  leaving_out.say("first");
  EXPECT_TRUE(leaving_out.root_hears(leaving_out.say("second")).starts_with("end: something"));
  Relay reflecting;
  EXPECT_TRUE(reflecting.rank_hears(reflecting.say("first")).starts_with("end: something"));
}

}  // namespace
}  // namespace tutti
