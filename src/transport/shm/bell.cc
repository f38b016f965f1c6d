#include "transport/shm/bell.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include "base/open_sockets.h"
#include "base/random.h"

namespace tutti {
namespace {

std::pair<sockaddr_un, socklen_t> address_of(std::uint64_t name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // the first byte of an abstract name is 0
  char* const end = fmt::format_to(address.sun_path + 1, "tutti-bell-{:016x}", name);
  return {address, static_cast<socklen_t>(end - reinterpret_cast<char*>(&address))};
}

UniqueFd datagram_socket() {
  return OpenSockets::open([] { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

}  // namespace

Bell::Bell() : socket_(datagram_socket()) {
  if (!socket_) return;
  while (name_ == 0) fill_randomly(std::as_writable_bytes(std::span(&name_, 1)));
  const auto [address, length] = address_of(name_);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) socket_.reset();
}

void Bell::silence() const {
  char note = 0;
  while (::recv(socket_.get(), &note, sizeof(note), 0) >= 0 || errno == EINTR) {
  }
}

bool BellRinger::ring(std::uint64_t name) {
  std::call_once(opened_, [this] { socket_ = datagram_socket(); });
  const auto [address, length] = address_of(name);
  const char note = 0;
  ssize_t sent = 0;
  do {
    sent = ::sendto(socket_.get(), &note, sizeof(note), MSG_NOSIGNAL | MSG_DONTWAIT,
                    reinterpret_cast<const sockaddr*>(&address), length);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0 || errno == EAGAIN || errno == EWOULDBLOCK;
}

}  // namespace tutti
