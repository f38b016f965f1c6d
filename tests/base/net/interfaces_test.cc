#include "base/net/interfaces.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tutti/error.h"

namespace tutti {
namespace {

InterfaceRecord at(const std::string& name, const std::string& host, int prefix) {
  InterfaceRecord record;
  record.name = name;
  record.address = SocketAddress::parse(host, 0);
  record.prefix = prefix;
  return record;
}

InterfaceRecord bare(const std::string& name, bool up = true) {
  InterfaceRecord record;
  record.name = name;
  record.up = up;
  return record;
}

InterfaceRules filtered(const std::string& list) {
  InterfaceRules rules;
  rules.filter = NameFilter(list);
  rules.filter_text = list;
  rules.filter_origin = "TUTTI_SOCKET_IFNAME";
  return rules;
}

InterfaceRules with_root(const std::string& host) {
  InterfaceRules rules;
  rules.root = SocketAddress::parse(host, 4000);
  return rules;
}

// "eth0 10.1.0.1, docker0 172.17.0.1": names and addresses in the order chosen.
std::string chosen(const std::vector<InterfaceRecord>& records, const InterfaceRules& rules = {}) {
  std::string text;
  for (const InterfaceRecord& record : choose_interfaces(records, rules)) {
    text += (text.empty() ? "" : ", ") + record.name + " " + record.address.host();
  }
  return text;
}

Error refusal(const std::vector<InterfaceRecord>& records, const InterfaceRules& rules) {
  try {
    choose_interfaces(records, rules);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kUnsupported, "no error");
}

const InterfaceRecord kLo4 = at("lo", "127.0.0.1", 8);
const InterfaceRecord kLo6 = at("lo", "::1", 128);

TEST(NameFilter, F03MatchesByPrefixExactlyOrByExclusion) {
  const std::vector<std::string> names = {"eth0", "eth1", "eth10", "bond0", "bond0.2973", "mlx5_1", "mlx5_11"};
  const auto matching = [&names](const char* list) {
    std::string text;
    for (const std::string& name : names) {
      if (NameFilter(list).matches(name)) text += (text.empty() ? "" : " ") + name;
    }
    return text;
  };
  EXPECT_EQ(matching("eth1"), "eth1 eth10");
  EXPECT_EQ(matching("=eth1"), "eth1");
  EXPECT_EQ(matching("^eth1"), "eth0 bond0 bond0.2973 mlx5_1 mlx5_11");
  EXPECT_EQ(matching("^=eth1"), "eth0 eth10 bond0 bond0.2973 mlx5_1 mlx5_11");
  EXPECT_EQ(matching("=bond0"), "bond0");
  EXPECT_EQ(matching("bond0"), "bond0 bond0.2973");
  EXPECT_EQ(matching("=mlx5_1,eth0"), "eth0 mlx5_1");
  EXPECT_EQ(matching(""), "eth0 eth1 eth10 bond0 bond0.2973 mlx5_1 mlx5_11");
  EXPECT_EQ(matching("^"), "eth0 eth1 eth10 bond0 bond0.2973 mlx5_1 mlx5_11");
}

TEST(NameFilter, F04SplitsTrimsAndKeepsTheOrderOfPreference) {
  const NameFilter filter("eth2, eth0,,");
  EXPECT_EQ(filter.items(), 2u);
  EXPECT_FALSE(filter.matches("eth1"));
  EXPECT_EQ(filter.position("eth2"), 0u);
  EXPECT_EQ(filter.position("eth0"), 1u);
  EXPECT_EQ(filter.position("eth1"), 2u);
  EXPECT_TRUE(NameFilter("^ docker , lo").matches("eth0"));
  EXPECT_FALSE(NameFilter("^ docker , lo").matches("docker0"));
}

TEST(Interfaces, F04TakesTheNamedOnesInTheirOrder) {
  const std::vector<InterfaceRecord> records = {at("eth0", "10.0.0.1", 24), at("eth1", "10.0.1.1", 24),
                                                at("eth2", "10.0.2.1", 24)};
  EXPECT_EQ(chosen(records, filtered("eth2, eth0,,")), "eth2 10.0.2.1, eth0 10.0.0.1");
}

TEST(Interfaces, F01RanksBridgesLastThoughTheyComeFirst) {
  const std::vector<InterfaceRecord> records = {kLo4, bare("veth9"), at("docker0", "172.17.0.1", 16),
                                                at("eth0", "10.1.0.2", 24)};
  EXPECT_EQ(chosen(records), "eth0 10.1.0.2, docker0 172.17.0.1");
  EXPECT_EQ(chosen(records, with_root("10.1.0.1")), "eth0 10.1.0.2, docker0 172.17.0.1");
}

TEST(Interfaces, F01PrefersTheNetworkOfTheRoot) {
  const std::vector<InterfaceRecord> records = {at("eth0", "192.168.0.2", 24), at("eth1", "10.1.0.2", 24)};
  EXPECT_EQ(chosen(records), "eth0 192.168.0.2, eth1 10.1.0.2");
  EXPECT_EQ(chosen(records, with_root("10.1.0.1")), "eth1 10.1.0.2, eth0 192.168.0.2");
  EXPECT_EQ(chosen({at("eth0", "10.0.0.1", 24), at("docker0", "172.17.0.1", 16)}, with_root("172.17.0.9")),
            "docker0 172.17.0.1, eth0 10.0.0.1");
}

TEST(Interfaces, F01ConnectsOverARealNetworkBeforeABridge) {
  const std::vector<InterfaceRecord> here = {kLo4, at("docker0", "172.17.0.1", 16), at("eth0", "10.1.0.2", 24)};
  std::vector<SocketAddress> peer;
  for (const char* host : {"127.0.0.1", "172.17.0.1", "fe80::9", "192.168.7.1", "10.1.0.1"}) {
    peer.push_back(SocketAddress::parse(host, 4000));
  }
  std::string order;
  for (const SocketAddress& address : connect_order(peer, here)) order += address.host() + " ";
  EXPECT_EQ(order, "10.1.0.1 192.168.7.1 172.17.0.1 fe80::9 127.0.0.1 ");
}

TEST(Interfaces, F02RefusesANameThatDoesNotExistAndListsWhatDoes) {
  const Error error = refusal({kLo4, at("eth0", "10.1.0.2", 24)}, filtered("nope0"));
  EXPECT_EQ(error.code(), ErrorCode::kInvalidSetting);
  EXPECT_STREQ(
      error.what(),
      "TUTTI_SOCKET_IFNAME=nope0 leaves no usable network interface on this host; it has: lo 127.0.0.1 (is not "
      "matched), eth0 10.1.0.2 (is not matched)");
}

TEST(Interfaces, F05CountsOnlyInterfacesWithAnAddress) {
  const std::vector<InterfaceRecord> records = {kLo4,           bare("vf0"), bare("vf1"),
                                                bare("slave0"), bare("vf2"), at("eth5", "10.1.0.2", 24)};
  EXPECT_EQ(chosen(records, filtered("^docker,lo")), "eth5 10.1.0.2");
  const Error error = refusal({kLo4, bare("vf0"), bare("off0", false)}, filtered("^docker,lo"));
  EXPECT_STREQ(
      error.what(),
      "TUTTI_SOCKET_IFNAME=^docker,lo leaves no usable network interface on this host; it has: lo 127.0.0.1 (is "
      "not matched), vf0 (has no IP address), off0 (is down)");
}

TEST(Interfaces, F06PrefersAGlobalAddressToALinkLocalOne) {
  const std::vector<InterfaceRecord> records = {kLo6, at("aaa0", "fe80::1%lo", 64), at("veth0", "2001:db8::2", 64)};
  EXPECT_EQ(chosen(records), "veth0 2001:db8::2");
  EXPECT_EQ(chosen({kLo6, at("aaa0", "fe80::1%lo", 64)}), "aaa0 fe80::1%lo") << "with its scope, as there is no other";
  EXPECT_EQ(chosen({kLo6, at("aaa0", "fe80::1%lo", 64), at("eth0", "fd00::2", 64)}), "eth0 fd00::2") << "unique local";
}

TEST(Interfaces, F07UsesTheRoutableAddressOfLo) {
  const std::vector<InterfaceRecord> records = {kLo4, at("lo", "10.9.0.1", 32), kLo6, at("eth0", "fe80::2%lo", 64)};
  EXPECT_EQ(chosen(records, filtered("lo")), "lo 10.9.0.1");
  EXPECT_EQ(chosen(records), "lo 10.9.0.1") << "everything else is link-local";
  EXPECT_EQ(chosen({kLo4, at("lo", "10.9.0.1", 32), at("eth0", "10.1.0.1", 24)}), "eth0 10.1.0.1, lo 10.9.0.1");
}

TEST(Interfaces, F07And09NeverAdvertiseLoopbackBesideAnythingElse) {
  EXPECT_EQ(chosen({kLo4, kLo6, at("eth0", "10.1.0.1", 24)}), "eth0 10.1.0.1");
  EXPECT_EQ(chosen({kLo4, kLo6}), "lo 127.0.0.1, lo ::1") << "a host without a network";
  EXPECT_EQ(chosen({kLo4, at("eth0", "10.1.0.1", 24)}, filtered("lo")), "lo 127.0.0.1") << "as asked for";
}

TEST(Interfaces, F08KeepsToTheFamilyOrOffersBoth) {
  const std::vector<InterfaceRecord> records = {at("eth0", "fd00::2", 64), at("eth0", "10.1.0.2", 24)};
  EXPECT_EQ(chosen(records), "eth0 10.1.0.2, eth0 fd00::2");
  InterfaceRules rules;
  rules.family = Family::kIpv6;
  EXPECT_EQ(chosen(records, rules), "eth0 fd00::2");
  rules.family = Family::kIpv4;
  EXPECT_EQ(chosen(records, rules), "eth0 10.1.0.2");
  const Error error = refusal({at("eth0", "fd00::2", 64)}, rules);
  EXPECT_EQ(error.code(), ErrorCode::kSystem);
  EXPECT_NE(std::string(error.what()).find("eth0 fd00::2 (is not IPv4)"), std::string::npos) << error.what();
}

TEST(Interfaces, AreReadFromTheKernelWithLoopbackAmongThem) {
  const std::vector<InterfaceRecord> records = read_interfaces();
  EXPECT_TRUE(std::ranges::any_of(records, [](const InterfaceRecord& record) { return record.name == "lo"; }));
  for (const InterfaceRecord& record : records) {
    EXPECT_FALSE(record.name.empty());
    EXPECT_TRUE(record.address.empty() || (record.prefix >= 0 && record.prefix <= 128));
  }
  EXPECT_TRUE(is_own_address(SocketAddress::parse("127.0.0.1", 5), records));
  EXPECT_FALSE(is_own_address(SocketAddress::parse("203.0.113.77", 5), records));
}

TEST(Interfaces, FollowTheSettings) {
  const InterfaceRules rules =
      interface_rules(Config().with({{"TUTTI_SOCKET_IFNAME", "^lo"}, {"TUTTI_SOCKET_FAMILY", "AF_INET6"}}));
  EXPECT_EQ(rules.family, Family::kIpv6);
  EXPECT_FALSE(rules.filter.matches("lo"));
  EXPECT_EQ(rules.filter_text, "^lo");
}

}  // namespace
}  // namespace tutti
