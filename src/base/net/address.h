#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// "host:port" as people write it: the host is a name or a numeric address, "[fe80::1%eth0]:4000" when it has colons.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  // Throws Error(kInvalidArgument) with the text and what is expected.
  static HostPort parse(std::string_view text);
  std::string text() const;
  bool operator==(const HostPort&) const = default;
};

// Which addresses a setting allows.
enum class Family { kAny, kIpv4, kIpv6 };

// An IPv4 or IPv6 address with a port: a value, as the socket calls want it. IPv4 addresses written as IPv6
// (::ffff:a.b.c.d) become IPv4.
class SocketAddress {
 public:
  SocketAddress() = default;  // no address
  // Throws Error(kUnsupported) for other families and Error(kInvalidArgument) for a wrong length.
  static SocketAddress from_sockaddr(const sockaddr* address, socklen_t length);
  // A numeric address, with "%interface" or "%number" after a link-local IPv6 one. Throws Error(kInvalidArgument).
  static SocketAddress parse(std::string_view host, std::uint16_t port);
  static SocketAddress loopback(Family family, std::uint16_t port);
  static SocketAddress any(Family family, std::uint16_t port);

  bool empty() const { return length_ == 0; }
  bool ipv6() const { return storage_.ss_family == AF_INET6; }
  std::uint16_t port() const;
  SocketAddress with_port(std::uint16_t port) const;
  bool is_loopback() const;
  bool is_link_local() const;
  // Whether the first `prefix` bits of both addresses are the same; false for different families.
  bool shares_prefix(const SocketAddress& other, int prefix) const;
  // The same host, whatever the port.
  bool same_host(const SocketAddress& other) const;

  std::string host() const;  // "10.0.0.1", "fe80::1%eth0"
  std::string text() const;  // "10.0.0.1:4000", "[fe80::1%eth0]:4000"
  HostPort host_port() const { return {host(), port()}; }

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return length_; }

  bool operator==(const SocketAddress& other) const { return same_host(other) && port() == other.port(); }

 private:
  std::span<const std::uint8_t> address_bytes() const;

  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

// Every address of a host name or numeric address, in the system's order; a caller tries them all. Blocks while the
// name service answers. Throws Error(kSystem) naming the host; `temporary`, when given, says whether a later try may
// help.
std::vector<SocketAddress> resolve(const HostPort& host, Family family, bool* temporary = nullptr);

}  // namespace tutti
