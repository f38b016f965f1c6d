#include "bootstrap/challenge.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/system_error.h"

namespace tutti {

std::shared_ptr<Challenge> Challenge::as_client(EventLoop& loop, UniqueFd socket, const Hello& hello, const Key& secret,
                                                std::chrono::milliseconds patience, Done done) {
  auto made =
      std::make_shared<Challenge>(loop, std::move(socket), ClientHandshake(hello, secret), Judge(), std::move(done));
  made->hello_ = hello;
  made->begin(patience);
  return made;
}

std::shared_ptr<Challenge> Challenge::as_server(EventLoop& loop, UniqueFd socket, const Credentials& own,
                                                RankIn rank_in, Judge judge, std::chrono::milliseconds patience,
                                                Done done) {
  auto made = std::make_shared<Challenge>(
      loop, std::move(socket),
      ServerHandshake(static_cast<std::uint32_t>(own.rank), own.communicator, own.secret, std::move(rank_in)),
      std::move(judge), std::move(done));
  made->begin(patience);
  return made;
}

Handshake& Challenge::handshake() {
  return std::visit([](auto& side) -> Handshake& { return side; }, side_);
}

void Challenge::begin(std::chrono::milliseconds patience) {
  timer_.arm_after(patience, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->fail(ErrorCode::kTimeout, "it did not answer the challenge in time");
  });
  if (auto* client = std::get_if<ClientHandshake>(&side_)) {
    if (!send(client->start())) {
      // Whoever started it does not expect to be called back from within.
      socket_->when_writable(
          [self = shared_from_this()] { self->fail(ErrorCode::kSystem, "the connection broke at once"); });
      return;
    }
  }
  socket_->when_readable([self = shared_from_this()] { self->read(); });
}

void Challenge::read() {
  if (!socket_) return;
  std::array<std::byte, Handshake::kMaxReason> buffer;
  while (const std::size_t wanted = std::min(handshake().wanted(), buffer.size())) {
    const ssize_t got = ::recv(socket_->fd(), buffer.data(), wanted, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {
      socket_->when_readable([self = shared_from_this()] { self->read(); });
      return;
    }
    if (got < 0) return fail(ErrorCode::kSystem, errno_text(errno));
    if (got == 0) return fail(ErrorCode::kSystem, "it closed the connection during the challenge");
    advance(std::span(buffer).first(static_cast<std::size_t>(got)));
    if (!socket_) return;
  }
}

void Challenge::advance(std::span<const std::byte> data) {
  const auto answer = std::visit([&](auto& side) { return side.feed(data); }, side_);
  if (!answer.empty()) spoke_ = true;
  if (!send(answer)) return fail(ErrorCode::kSystem, "the connection broke during the challenge");

  if (auto* server = std::get_if<ServerHandshake>(&side_); server && server->state() == HandshakeState::kProven) {
    hello_ = server->hello();
    const std::string refusal = judge_ ? judge_(hello_) : "";
    if (!send(refusal.empty() ? server->accept() : server->reject(ErrorCode::kMismatch, refusal))) {
      return fail(ErrorCode::kSystem, "the connection broke during the challenge");
    }
  }
  if (handshake().state() == HandshakeState::kRejected) return fail(handshake().code(), handshake().reason());
  if (handshake().state() == HandshakeState::kAccepted) succeed();
}

// The few hundred bytes of a handshake always fit in the empty buffer of a new socket; anything else is a failure.
bool Challenge::send(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t sent = ::send(socket_->fd(), data.data(), data.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    data = data.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

void Challenge::succeed() {
  Outcome outcome;
  outcome.socket = {socket_->release(), handshake().session()};
  outcome.hello = hello_;
  socket_.reset();
  timer_.cancel();
  if (const Done done = std::exchange(done_, nullptr)) done(std::move(outcome));
}

void Challenge::fail(ErrorCode code, std::string trouble) {
  if (!socket_) return;
  Outcome outcome;
  outcome.code = code;
  outcome.trouble = std::move(trouble);
  outcome.spoke = spoke_;
  if (const auto* client = std::get_if<ClientHandshake>(&side_)) outcome.proven = client->proven();
  socket_.reset();
  timer_.cancel();
  if (const Done done = std::exchange(done_, nullptr)) done(std::move(outcome));
}

void Challenge::cancel() {
  done_ = nullptr;
  socket_.reset();
  timer_.cancel();
}

}  // namespace tutti
