#include "bootstrap/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/system_error.h"

namespace tutti {
namespace {

constexpr std::size_t kChunkBytes = 16 * 1024;
constexpr int kChunksAtOnce = 16;  // then others get their turn
constexpr std::chrono::seconds kLinger(2);
constexpr std::size_t kUnreadLimits = 4;  // a peer may leave this many of the largest frames unread

// The other side or the way to it broke; other errors are those of this system.
bool is_of_network(int error) {
  switch (error) {
    case ECONNRESET:
    case ECONNREFUSED:
    case ECONNABORTED:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
    case EPROTO:
      return true;
    default:
      return false;
  }
}

}  // namespace

Connection::Connection(EventLoop& loop, ProvenSocket socket, std::size_t limit)
    : loop_(loop),
      socket_(loop, std::move(socket.fd)),
      sending_(socket.keys.sending),
      limit_(limit),
      incoming_(socket.keys.receiving, limit) {}

void Connection::start(OnFrame on_frame, OnEnd on_end) {
  on_frame_ = std::move(on_frame);
  on_end_ = std::move(on_end);
  socket_.when_readable([self = shared_from_this()] { self->read(); });
}

void Connection::read() {
  std::array<std::byte, kChunkBytes> chunk;
  for (int chunks = 0; chunks < kChunksAtOnce && !closed_; ++chunks) {
    const ssize_t got = ::recv(socket_.fd(), chunk.data(), chunk.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) {
      const int error = errno;
      refused_here_ = refused_here_ || !is_of_network(error);
      return end(errno_text(error));
    }
    if (got == 0) return end(incoming_.between_frames() ? "" : "it ended in the middle of a message");
    last_heard_ = Clock::now();
    incoming_.add(std::span(chunk).first(static_cast<std::size_t>(got)));
    if (!take_frames()) return;
    if (static_cast<std::size_t>(got) < chunk.size()) break;
  }
  if (!closed_) socket_.when_readable([self = shared_from_this()] { self->read(); });
}

// Hands over the whole frames that have arrived; false when the connection ended over them.
bool Connection::take_frames() {
  while (!closed_) {
    const auto frame = incoming_.next();
    if (!frame) break;
    try {
      if (!lingering_) on_frame_(frame->type, frame->payload);
    } catch (const Error& error) {
      end(error.what());
      return false;
    }
  }
  if (closed_) return false;
  if (const char* trouble = incoming_.trouble()) {
    end(trouble);
    return false;
  }
  incoming_.drop_taken();
  return true;
}

void Connection::send(const Frame& frame) {
  if (closed_ || broken_ || finishing_) return;
  queue_.push_back({frame, frame_tag(sending_, sent_++, *frame)});
  queued_bytes_ += queue_.back().size();
  if (queued_bytes_ > kUnreadLimits * (limit_ + kFrameHeaderBytes + kFrameTagBytes)) {
    // The reading side reports it: whoever sends is not called back from within.
    broken_ = true;
    queue_.clear();
    trouble_ = "it does not read what is sent to it";
    ::shutdown(socket_.fd(), SHUT_RDWR);
    return;
  }
  if (!waiting_to_write_) write();
}

void Connection::write() {
  waiting_to_write_ = false;
  if (closed_) return;
  while (!queue_.empty()) {
    const Outgoing& next = queue_.front();
    const std::size_t frame_bytes = next.frame->size();
    const std::size_t in_frame = std::min(written_, frame_bytes);
    const std::size_t in_tag = written_ - in_frame;
    iovec parts[2] = {{const_cast<std::byte*>(next.frame->data()) + in_frame, frame_bytes - in_frame},
                      {const_cast<std::byte*>(next.tag.data()) + in_tag, kFrameTagBytes - in_tag}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      waiting_to_write_ = true;
      socket_.when_writable([self = shared_from_this()] { self->write(); });
      return;
    }
    if (sent < 0) {
      // What the other side said before it went away may still be there to read: the reading side reports. Where this
      // side may not send, or has no memory to, nothing would come.
      const int error = errno;
      if (error != EPIPE && error != ECONNRESET) {
        trouble_ = "cannot send: " + errno_text(error);
        refused_here_ = true;
        ::shutdown(socket_.fd(), SHUT_RDWR);
      }
      broken_ = true;
      queue_.clear();
      return;
    }
    written_ += static_cast<std::size_t>(sent);
    queued_bytes_ -= static_cast<std::size_t>(sent);
    if (written_ == next.size()) {
      queue_.pop_front();
      written_ = 0;
    }
  }
  if (finishing_) ::shutdown(socket_.fd(), SHUT_WR);
}

void Connection::finish() {
  if (closed_ || finishing_) return;
  finishing_ = true;
  if (queue_.empty()) ::shutdown(socket_.fd(), SHUT_WR);
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  if (lingering_) lingering_->cancel();
  // The callbacks stay until the connection goes: one of them may be running.
  static_cast<void>(Watch(std::move(socket_)));
}

void Connection::linger() {
  if (closed_ || lingering_) return;
  finish();
  lingering_ = std::make_unique<Timer>(loop_);
  lingering_->arm_after(kLinger, [self = shared_from_this()] { self->close(); });
}

void Connection::end(const std::string& trouble) {
  if (lingering_) return close();
  if (closed_ || !on_end_) return;
  const OnEnd on_end = std::exchange(on_end_, nullptr);
  on_end(trouble_.empty() ? trouble : trouble_);
}

}  // namespace tutti
