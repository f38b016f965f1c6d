#include "bootstrap/sockets.h"

#include <netinet/tcp.h>

#include <cerrno>

#include "base/descriptors.h"
#include "base/open_sockets.h"
#include "base/system_error.h"

namespace tutti {
namespace {

constexpr int kBacklog = 4096;

UniqueFd open_socket(const SocketAddress& address) {
  UniqueFd fd = OpenSockets::open(
      [&] { return ::socket(address.data()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP); });
  if (!fd) {
    throw system_error("cannot open a socket for " + address.text(), errno, descriptor_advice(errno));
  }
  return fd;
}

void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

}  // namespace

UniqueFd listen_on(const SocketAddress& address) {
  UniqueFd fd = open_socket(address);
  // Connections of an earlier run that linger in TIME_WAIT do not keep the port.
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // The wildcard address of IPv6 serves IPv4, too.
  if (address.ipv6()) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd.get(), address.data(), address.size()) != 0) {
    const bool taken = errno == EADDRINUSE;
    throw system_error("cannot listen on " + address.text(), errno,
                       taken ? "another program, or another job's root, has this port: choose another one" : "");
  }
  if (::listen(fd.get(), kBacklog) != 0) throw system_error("cannot listen on " + address.text(), errno);
  return fd;
}

UniqueFd begin_connecting(const SocketAddress& address, int& error) {
  UniqueFd fd = open_socket(address);
  const bool begun = ::connect(fd.get(), address.data(), address.size()) == 0 || errno == EINPROGRESS || errno == EINTR;
  error = begun ? 0 : errno;
  return fd;
}

int connection_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

SocketAddress local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    throw system_error("cannot ask a socket for its own address (getsockname)", errno);
  return SocketAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&storage), length);
}

SocketAddress remote_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    throw system_error("cannot ask a socket for the address of its other end (getpeername)", errno);
  return SocketAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&storage), length);
}

void set_low_latency(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

bool accept_may_go_on(int error) {
  switch (error) {
    case ECONNABORTED:
    case ECONNRESET:
    case EINTR:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EPERM:
      return true;
    default:
      return false;
  }
}

}  // namespace tutti
