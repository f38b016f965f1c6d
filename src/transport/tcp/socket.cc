#include "transport/tcp/socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

#include "base/net/address.h"

namespace tutti {
namespace {

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

SocketResult failed_call() {
  switch (errno) {
    case EAGAIN:
#if EAGAIN != EWOULDBLOCK
    case EWOULDBLOCK:
#endif
    case ENOBUFS:
    case ENOMEM:
      return {.kind = SocketResult::Kind::kAgain};
    default:
      return {.kind = SocketResult::Kind::kEnded, .error = errno};
  }
}

}  // namespace

TcpSocket::TcpSocket(UniqueFd fd, const TcpLimits& limits) : fd_(std::move(fd)) {
  const int socket = fd_.get();
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_SNDBUF, limits.socket_buffer_bytes);
  set(socket, SOL_SOCKET, SO_RCVBUF, limits.socket_buffer_bytes);
  // Keeps the state of firewalls on the way alive while nobody communicates, and notices when that failed. There is no
  // TCP_USER_TIMEOUT: it would also end the connection to a peer that computes for long and reads nothing meanwhile.
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

SocketResult TcpSocket::read(std::span<std::byte> into) {
  ssize_t got;
  do {
    got = ::recv(fd_.get(), into.data(), into.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return {.kind = SocketResult::Kind::kMoved, .bytes = static_cast<std::size_t>(got)};
  if (got == 0) return {.kind = SocketResult::Kind::kEnded};
  return failed_call();
}

SocketResult TcpSocket::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  iovec parts[2] = {{const_cast<std::byte*>(head.data()), head.size()},
                    {const_cast<std::byte*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = head.empty() ? parts + 1 : parts;
  message.msg_iovlen = (head.empty() ? 0u : 1u) + (body.empty() ? 0u : 1u);
  ssize_t put;
  do {
    put = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (put < 0 && errno == EINTR);
  if (put >= 0) return {.kind = SocketResult::Kind::kMoved, .bytes = static_cast<std::size_t>(put)};
  return failed_call();
}

bool TcpSocket::path_is_silent(std::chrono::milliseconds silence) const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return silent_path(info.tcpi_unacked, info.tcpi_retransmits, info.tcpi_last_ack_recv, silence);
}

std::string TcpSocket::ends() const {
  const auto text = [this](int (*get)(int, sockaddr*, socklen_t*)) -> std::string {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    if (get(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return "?";
    if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return "a local socket";
    return SocketAddress::from_sockaddr(reinterpret_cast<sockaddr*>(&address), length).text();
  };
  return text(::getsockname) + " to " + text(::getpeername);
}

void TcpSocket::finish_writing() { ::shutdown(fd_.get(), SHUT_WR); }

bool TcpSocket::delivered() {
  // What comes in now interests nobody, but closing a socket with unread data would throw away what it has yet to send.
  std::array<std::byte, 8192> ignored;
  SocketResult result;
  while ((result = read(ignored)).kind == SocketResult::Kind::kMoved) {
  }
  if (result.kind == SocketResult::Kind::kEnded) return true;
  int unsent = 0;
  return ::ioctl(fd_.get(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

}  // namespace tutti
