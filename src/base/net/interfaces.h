#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/name_filter.h"
#include "base/net/address.h"

namespace tutti {

// One address of one network interface, or an interface without any (address is empty then).
struct InterfaceRecord {
  std::string name;
  SocketAddress address;
  int prefix = 0;  // length of the network's part of the address in bits
  bool up = true;
};

// What the kernel says of this network namespace (getifaddrs; /sys may show another one's). Throws Error(kSystem).
std::vector<InterfaceRecord> read_interfaces();

// What the settings and the situation ask of an address.
struct InterfaceRules {
  NameFilter filter{""};      // TUTTI_SOCKET_IFNAME
  std::string filter_text;    // as it was given, for messages; "" when it was not
  std::string filter_origin;  // the name of the variable
  Family family = Family::kAny;
  // The address at which the root was reached, when known: an address in its network comes first.
  std::optional<SocketAddress> root;
};
InterfaceRules interface_rules(const Config& config);

// Addresses to listen on and to tell the others, best first. Pure: the same records and rules give the same answer.
//
// Order: the items of the filter; then an address in the root's network; global ones; global ones on lo; those of
// container and virtual machine bridges; within each, IPv4 first and otherwise the kernel's order. Link-local
// addresses count only when there is nothing better, loopback ones only when there is nothing else at all.
// Throws Error(kInvalidSetting or kSystem) that lists every interface and why it was dropped.
std::vector<InterfaceRecord> choose_interfaces(std::span<const InterfaceRecord> records, const InterfaceRules& rules);

// The addresses of a peer in the order in which to try them from here: those in a network of a real interface, then
// those behind a router, those of bridges' networks, link-local, loopback.
std::vector<SocketAddress> connect_order(std::span<const SocketAddress> peer, std::span<const InterfaceRecord> here);

// Whether an address is one of this host's own.
bool is_own_address(const SocketAddress& address, std::span<const InterfaceRecord> here);

// Whether not even ranks of one host can reach each other: fresh network namespaces begin so.
bool is_loopback_down(std::span<const InterfaceRecord> here);

// docker0, virbr0, veth…, br-…: names that container and virtual machine managers give to their bridges.
bool is_bridge_name(const std::string& name);

}  // namespace tutti
