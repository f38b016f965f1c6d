#include "base/net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/system_error.h"
#include "base/text.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxHostName = 255;

Error bad_host_port(std::string_view text, std::string_view why) {
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("\"{}\" is no host:port ({}); write host:4000, 10.0.0.1:4000 or [fd00::1]:4000",
                           text.substr(0, kMaxHostName), why));
}

sockaddr_in& v4(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in&>(storage); }
const sockaddr_in& v4(const sockaddr_storage& storage) { return reinterpret_cast<const sockaddr_in&>(storage); }
sockaddr_in6& v6(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in6&>(storage); }
const sockaddr_in6& v6(const sockaddr_storage& storage) { return reinterpret_cast<const sockaddr_in6&>(storage); }

}  // namespace

HostPort HostPort::parse(std::string_view text) {
  std::string_view host;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos || end + 1 >= text.size() || text[end + 1] != ':') {
      throw bad_host_port(text, "\"]:\" is missing");
    }
    host = text.substr(1, end - 1);
    port = text.substr(end + 2);
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) throw bad_host_port(text, "the port is missing");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.find(':') != std::string_view::npos) throw bad_host_port(text, "an IPv6 address needs brackets");
  }
  if (host.empty()) throw bad_host_port(text, "the host is missing");
  if (host.size() > kMaxHostName) throw bad_host_port(text, "the host name is too long");
  const auto value = whole_number<std::uint16_t>(port);
  if (!value || *value == 0) {
    throw bad_host_port(text, "the port is a number from 1 to 65535");
  }
  return {std::string(host), *value};
}

std::string HostPort::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

SocketAddress SocketAddress::from_sockaddr(const sockaddr* address, socklen_t length) {
  SocketAddress result;
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    std::memcpy(&result.storage_, address, sizeof(sockaddr_in));
    result.length_ = sizeof(sockaddr_in);
  } else if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 given;
    std::memcpy(&given, address, sizeof(given));
    if (IN6_IS_ADDR_V4MAPPED(&given.sin6_addr)) {
      sockaddr_in& plain = v4(result.storage_);
      plain.sin_family = AF_INET;
      plain.sin_port = given.sin6_port;
      std::memcpy(&plain.sin_addr, &given.sin6_addr.s6_addr[12], 4);
      result.length_ = sizeof(sockaddr_in);
    } else {
      given.sin6_flowinfo = 0;
      std::memcpy(&result.storage_, &given, sizeof(given));
      result.length_ = sizeof(sockaddr_in6);
    }
  } else if (address->sa_family == AF_INET || address->sa_family == AF_INET6) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("a socket address of {} bytes is cut short", length));
  } else {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("address family {} is neither IPv4 nor IPv6", static_cast<int>(address->sa_family)));
  }
  return result;
}

SocketAddress SocketAddress::parse(std::string_view host, std::uint16_t port) {
  const auto bad = [&](std::string_view why) {
    return Error(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is no numeric address: {}", host.substr(0, 80), why));
  };
  std::string_view number = host;
  std::string_view scope;
  if (const std::size_t percent = host.find('%'); percent != std::string_view::npos) {
    number = host.substr(0, percent);
    scope = host.substr(percent + 1);
    if (scope.empty() || scope.size() >= IF_NAMESIZE) throw bad("an interface name of 1 to 15 letters follows %");
  }
  if (number.size() >= INET6_ADDRSTRLEN) throw bad("it is too long");
  const std::string terminated(number);
  sockaddr_in plain{};
  if (scope.empty() && ::inet_pton(AF_INET, terminated.c_str(), &plain.sin_addr) == 1) {
    plain.sin_family = AF_INET;
    plain.sin_port = htons(port);
    return from_sockaddr(reinterpret_cast<const sockaddr*>(&plain), sizeof(plain));
  }
  sockaddr_in6 wide{};
  if (::inet_pton(AF_INET6, terminated.c_str(), &wide.sin6_addr) != 1) throw bad("neither IPv4 nor IPv6");
  wide.sin6_family = AF_INET6;
  wide.sin6_port = htons(port);
  if (!scope.empty()) {
    const auto number_scope = whole_number<unsigned>(scope);
    const unsigned index = number_scope ? *number_scope : ::if_nametoindex(std::string(scope).c_str());
    if (index == 0) throw bad(fmt::format("this host has no interface {}", scope));
    wide.sin6_scope_id = index;
  }
  return from_sockaddr(reinterpret_cast<const sockaddr*>(&wide), sizeof(wide));
}

SocketAddress SocketAddress::loopback(Family family, std::uint16_t port) {
  return parse(family == Family::kIpv6 ? "::1" : "127.0.0.1", port);
}

SocketAddress SocketAddress::any(Family family, std::uint16_t port) {
  return parse(family == Family::kIpv6 ? "::" : "0.0.0.0", port);
}

std::uint16_t SocketAddress::port() const {
  if (empty()) return 0;
  return ntohs(ipv6() ? v6(storage_).sin6_port : v4(storage_).sin_port);
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  SocketAddress copy = *this;
  if (ipv6()) {
    v6(copy.storage_).sin6_port = htons(port);
  } else if (!empty()) {
    v4(copy.storage_).sin_port = htons(port);
  }
  return copy;
}

bool SocketAddress::is_loopback() const {
  if (empty()) return false;
  return ipv6() ? IN6_IS_ADDR_LOOPBACK(&v6(storage_).sin6_addr) : address_bytes()[0] == 127;
}

bool SocketAddress::is_link_local() const {
  if (empty()) return false;
  if (ipv6()) return IN6_IS_ADDR_LINKLOCAL(&v6(storage_).sin6_addr);
  return address_bytes()[0] == 169 && address_bytes()[1] == 254;
}

bool SocketAddress::shares_prefix(const SocketAddress& other, int prefix) const {
  const std::span<const std::uint8_t> a = address_bytes();
  const std::span<const std::uint8_t> b = other.address_bytes();
  if (a.empty() || a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size() && prefix > 0; ++i, prefix -= 8) {
    const int drop = prefix >= 8 ? 0 : 8 - prefix;
    if (a[i] >> drop != b[i] >> drop) return false;
  }
  return true;
}

bool SocketAddress::same_host(const SocketAddress& other) const {
  const std::span<const std::uint8_t> a = address_bytes();
  const std::span<const std::uint8_t> b = other.address_bytes();
  if (!std::ranges::equal(a, b)) return false;
  return !ipv6() || v6(storage_).sin6_scope_id == v6(other.storage_).sin6_scope_id;
}

std::span<const std::uint8_t> SocketAddress::address_bytes() const {
  if (empty()) return {};
  if (ipv6()) return v6(storage_).sin6_addr.s6_addr;
  return {reinterpret_cast<const std::uint8_t*>(&v4(storage_).sin_addr), 4};
}

std::string SocketAddress::host() const {
  if (empty()) return "none";
  char buffer[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(storage_.ss_family, address_bytes().data(), buffer, sizeof(buffer));
  std::string text = buffer;
  if (ipv6() && v6(storage_).sin6_scope_id != 0) {
    char interface[IF_NAMESIZE] = {};
    const unsigned index = v6(storage_).sin6_scope_id;
    text += '%';
    text += ::if_indextoname(index, interface) != nullptr ? std::string(interface) : std::to_string(index);
  }
  return text;
}

std::string SocketAddress::text() const { return host_port().text(); }

std::vector<SocketAddress> resolve(const HostPort& host, Family family, bool* temporary) {
  addrinfo hints{};
  hints.ai_family = family == Family::kIpv4 ? AF_INET : family == Family::kIpv6 ? AF_INET6 : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int result = ::getaddrinfo(host.host.c_str(), std::to_string(host.port).c_str(), &hints, &list);
  // A name that is not known yet may be known later: pods start in any order.
  if (temporary != nullptr) *temporary = result == EAI_AGAIN || result == EAI_NONAME || result == EAI_SYSTEM;
  if (result != 0) {
    const std::string why = result == EAI_SYSTEM ? errno_text(errno) : ::gai_strerror(result);
    const char* only = family == Family::kIpv4 ? " to IPv4" : family == Family::kIpv6 ? " to IPv6" : "";
    throw Error(ErrorCode::kSystem, fmt::format("cannot resolve host \"{}\"{}: {}", host.host, only, why));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    const SocketAddress address = SocketAddress::from_sockaddr(entry->ai_addr, entry->ai_addrlen);
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace tutti
