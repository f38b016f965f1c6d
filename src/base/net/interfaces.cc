#include "base/net/interfaces.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <memory>
#include <string_view>
#include <tuple>

#include "base/system_error.h"
#include "tutti/error.h"

namespace tutti {
namespace {

enum class Tier { kRootNetwork, kGlobal, kGlobalOnLoopback, kBridge, kLinkLocal, kLoopback };

bool is_loopback_interface(const std::string& name) { return name == "lo"; }

int prefix_length(const sockaddr* mask) {
  int bits = 0;
  const auto count = [&bits](const void* data, std::size_t bytes) {
    const auto* byte = static_cast<const std::uint8_t*>(data);
    for (std::size_t i = 0; i < bytes; ++i) bits += std::popcount(byte[i]);
  };
  if (mask == nullptr) return 0;
  if (mask->sa_family == AF_INET) count(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr, 4);
  if (mask->sa_family == AF_INET6) count(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr, 16);
  return bits;
}

Tier tier_of(const InterfaceRecord& record, const InterfaceRules& rules) {
  if (record.address.is_loopback()) return Tier::kLoopback;
  if (record.address.is_link_local()) return Tier::kLinkLocal;
  if (rules.root && record.address.shares_prefix(*rules.root, record.prefix)) return Tier::kRootNetwork;
  if (is_bridge_name(record.name)) return Tier::kBridge;
  if (is_loopback_interface(record.name)) return Tier::kGlobalOnLoopback;
  return Tier::kGlobal;
}

// Why a record cannot be used at all; "" when it can.
std::string unusable(const InterfaceRecord& record, const InterfaceRules& rules) {
  if (!record.up) return "is down";
  if (!rules.filter.matches(record.name)) return "is not matched";
  if (record.address.empty()) return "has no IP address";
  if (rules.family == Family::kIpv4 && record.address.ipv6()) return "is not IPv4";
  if (rules.family == Family::kIpv6 && !record.address.ipv6()) return "is not IPv6";
  return "";
}

Error none_usable(std::span<const InterfaceRecord> records, const InterfaceRules& rules) {
  std::string list;
  for (const InterfaceRecord& record : records) {
    if (!list.empty()) list += ", ";
    list += record.name;
    if (!record.address.empty()) list += " " + record.address.host();
    list += " (" + unusable(record, rules) + ")";
  }
  if (list.empty()) list = "none at all";
  if (!rules.filter_text.empty()) {
    return Error(ErrorCode::kInvalidSetting,
                 fmt::format("{}={} leaves no usable network interface on this host; it has: {}", rules.filter_origin,
                             rules.filter_text, list));
  }
  return Error(ErrorCode::kSystem, fmt::format("this host has no usable network interface; it has: {}", list));
}

}  // namespace

bool is_bridge_name(const std::string& name) {
  static constexpr std::array<std::string_view, 17> kPrefixes = {
      "docker", "br-", "virbr", "veth",   "vnet",    "vmnet", "vboxnet", "lxcbr",  "lxdbr",
      "podman", "cni", "cali",  "cilium", "flannel", "kube-", "weave",   "nerdctl"};
  return std::ranges::any_of(kPrefixes, [&name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<InterfaceRecord> read_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw system_error("cannot list network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<InterfaceRecord> records;
  std::vector<InterfaceRecord> bare;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    InterfaceRecord record;
    record.name = entry->ifa_name;
    record.up = (entry->ifa_flags & IFF_UP) != 0;
    const int family = entry->ifa_addr != nullptr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    if (family == AF_INET || family == AF_INET6) {
      const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      record.address = SocketAddress::from_sockaddr(entry->ifa_addr, length);
      record.prefix = prefix_length(entry->ifa_netmask);
      records.push_back(std::move(record));
    } else {
      bare.push_back(std::move(record));
    }
  }
  // An interface without an address is listed so that an error can say so.
  for (InterfaceRecord& record : bare) {
    const auto same = [&record](const InterfaceRecord& other) { return other.name == record.name; };
    if (std::ranges::none_of(records, same)) records.push_back(std::move(record));
  }
  return records;
}

InterfaceRules interface_rules(const Config& config) {
  InterfaceRules rules;
  rules.filter = NameFilter(config.text(Setting::kSocketIfname));
  rules.filter_text = config.text(Setting::kSocketIfname);
  rules.filter_origin = config.given_name(Setting::kSocketIfname);
  const std::string& family = config.text(Setting::kSocketFamily);
  rules.family = family == "ipv4" ? Family::kIpv4 : family == "ipv6" ? Family::kIpv6 : Family::kAny;
  return rules;
}

std::vector<InterfaceRecord> choose_interfaces(std::span<const InterfaceRecord> records, const InterfaceRules& rules) {
  struct Candidate {
    std::tuple<std::size_t, Tier, bool> order;
    const InterfaceRecord* record;
  };
  std::vector<Candidate> candidates;
  Tier best = Tier::kLoopback;
  for (const InterfaceRecord& record : records) {
    if (!unusable(record, rules).empty()) continue;
    const Tier tier = tier_of(record, rules);
    best = std::min(best, tier);
    candidates.push_back({{rules.filter.position(record.name), tier, record.address.ipv6()}, &record});
  }
  if (candidates.empty()) throw none_usable(records, rules);
  // Link-local and loopback addresses mean something else on every host.
  std::erase_if(candidates, [best](const Candidate& candidate) {
    const Tier tier = std::get<Tier>(candidate.order);
    return tier >= Tier::kLinkLocal && tier > best;
  });
  std::ranges::stable_sort(candidates, {}, &Candidate::order);
  std::vector<InterfaceRecord> chosen;
  for (const Candidate& candidate : candidates) chosen.push_back(*candidate.record);
  return chosen;
}

std::vector<SocketAddress> connect_order(std::span<const SocketAddress> peer, std::span<const InterfaceRecord> here) {
  enum class Reach { kOwnNetwork, kRouted, kBridge, kLinkLocal, kLoopback };
  const auto reach = [here](const SocketAddress& address) {
    if (address.is_loopback()) return Reach::kLoopback;
    if (address.is_link_local()) return Reach::kLinkLocal;
    Reach result = Reach::kRouted;
    for (const InterfaceRecord& record : here) {
      if (record.address.empty() || !record.up || !address.shares_prefix(record.address, record.prefix)) continue;
      if (!is_bridge_name(record.name)) return Reach::kOwnNetwork;
      result = Reach::kBridge;
    }
    return result;
  };
  std::vector<SocketAddress> ordered(peer.begin(), peer.end());
  std::ranges::stable_sort(ordered, {}, reach);
  return ordered;
}

bool is_loopback_down(std::span<const InterfaceRecord> here) {
  return std::ranges::none_of(
      here, [](const InterfaceRecord& record) { return is_loopback_interface(record.name) && record.up; });
}

bool is_own_address(const SocketAddress& address, std::span<const InterfaceRecord> here) {
  return address.is_loopback() || std::ranges::any_of(here, [&address](const InterfaceRecord& record) {
           return !record.address.empty() && record.address.same_host(address);
         });
}

}  // namespace tutti
