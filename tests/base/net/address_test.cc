#include "base/net/address.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/handles.h"
#include "tutti/error.h"

namespace tutti {
namespace {

TEST(HostPort, ParsesNamesAndAddresses) {
  EXPECT_EQ(HostPort::parse("node1:29500"), (HostPort{"node1", 29500}));
  EXPECT_EQ(HostPort::parse("10.0.0.1:1"), (HostPort{"10.0.0.1", 1}));
  EXPECT_EQ(HostPort::parse("[fe80::1%eth0]:65535"), (HostPort{"fe80::1%eth0", 65535}));
  EXPECT_EQ(HostPort::parse("[::1]:80").text(), "[::1]:80");
  EXPECT_EQ(HostPort::parse("node1:80").text(), "node1:80");
}

TEST(HostPort, RefusesEverythingElse) {
  for (const std::string text : {"", "node1", "node1:", ":80", "node1:0", "node1:65536", "node1:-1", "node1:8 0",
                                 "node1:080x", "::1:80", "[::1]", "[::1", "[]:80", "[::1]80", "node1:+80"}) {
    EXPECT_THROW(HostPort::parse(text), Error) << text;
  }
  EXPECT_THROW(HostPort::parse(std::string(300, 'a') + ":80"), Error);
}

TEST(SocketAddress, PrintsWhatItParsed) {
  for (const char* host : {"10.1.2.3", "255.255.255.255", "::1", "2001:db8::5", "fe80::1%lo"}) {
    EXPECT_EQ(SocketAddress::parse(host, 4000).host(), host);
  }
  EXPECT_EQ(SocketAddress::parse("2001:db8::5", 4000).text(), "[2001:db8::5]:4000");
  EXPECT_EQ(SocketAddress::parse("10.1.2.3", 4000).text(), "10.1.2.3:4000");
}

TEST(SocketAddress, RefusesWhatIsNoNumericAddress) {
  for (const std::string text : {"", "node1", "10.1.2", "10.1.2.3.4", "10.1.2.256", "10.1.2.3%lo", "fe80::1%",
                                 "fe80::1%nosuch0", "fe80::1%averyveryverylongname", "1:2:3:4:5:6:7:8:9"}) {
    EXPECT_THROW(SocketAddress::parse(text, 1), Error) << text;
  }
}

// What the system takes for the name of an interface has 15 letters at most and a zero behind them.
TEST(SocketAddress, RefusesAnInterfaceNameThatLeavesNoRoomForItsEnd) {
  for (const std::size_t letters : {15, 16, 17}) {
    try {
      SocketAddress::parse("fe80::1%" + std::string(letters, 'x'), 1);
      ADD_FAILURE() << letters;
    } catch (const Error& error) {
      const bool too_long = std::string(error.what()).find("1 to 15 letters") != std::string::npos;
      EXPECT_EQ(too_long, letters > 15) << error.what();
    }
  }
}

TEST(SocketAddress, TakesAnIpv4AddressInIpv6ClothesForIpv4) {
  const SocketAddress mapped = SocketAddress::parse("::ffff:10.1.2.3", 7);
  EXPECT_FALSE(mapped.ipv6());
  EXPECT_EQ(mapped, SocketAddress::parse("10.1.2.3", 7));
}

TEST(SocketAddress, KnowsItsKind) {
  EXPECT_TRUE(SocketAddress::parse("127.0.1.1", 0).is_loopback());
  EXPECT_TRUE(SocketAddress::parse("::1", 0).is_loopback());
  EXPECT_TRUE(SocketAddress::parse("169.254.3.4", 0).is_link_local());
  EXPECT_TRUE(SocketAddress::parse("fe80::3", 0).is_link_local());
  EXPECT_FALSE(SocketAddress::parse("fd00::3", 0).is_link_local());
  EXPECT_FALSE(SocketAddress().is_loopback());
}

TEST(SocketAddress, ComparesNetworks) {
  const SocketAddress a = SocketAddress::parse("10.1.2.3", 1);
  EXPECT_TRUE(a.shares_prefix(SocketAddress::parse("10.1.2.200", 2), 24));
  EXPECT_FALSE(a.shares_prefix(SocketAddress::parse("10.1.2.200", 2), 25));
  EXPECT_TRUE(a.shares_prefix(SocketAddress::parse("10.1.3.1", 2), 23));
  EXPECT_FALSE(a.shares_prefix(SocketAddress::parse("fd00::1", 2), 0)) << "another family";
  EXPECT_TRUE(SocketAddress::parse("fd00::1", 1).shares_prefix(SocketAddress::parse("fd00::ffff", 1), 64));
}

TEST(SocketAddress, ChangesItsPortAlone) {
  const SocketAddress a = SocketAddress::parse("10.1.2.3", 1);
  EXPECT_EQ(a.with_port(9).text(), "10.1.2.3:9");
  EXPECT_TRUE(a.same_host(a.with_port(9)));
  EXPECT_NE(a, a.with_port(9));
}

TEST(SocketAddress, RefusesACutOrForeignStructure) {
  sockaddr_in6 wide{};
  wide.sin6_family = AF_INET6;
  EXPECT_THROW(SocketAddress::from_sockaddr(reinterpret_cast<sockaddr*>(&wide), 20), Error);
  wide.sin6_family = AF_UNIX;
  EXPECT_THROW(SocketAddress::from_sockaddr(reinterpret_cast<sockaddr*>(&wide), sizeof(wide)), Error);
}

TEST(Resolve, AnswersWithTheRequestedFamilyOnly) {
  for (const SocketAddress& address : resolve({"localhost", 80}, Family::kIpv4)) EXPECT_FALSE(address.ipv6());
  EXPECT_EQ(resolve({"::1", 80}, Family::kAny).front().text(), "[::1]:80");
  EXPECT_THROW(resolve({"::1", 80}, Family::kIpv4), Error);
}

TEST(Resolve, F10GivesEveryAnswerOnceSoThatOneOfThemConnects) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress here = SocketAddress::loopback(Family::kIpv4, 0);
  ASSERT_EQ(::bind(listener.get(), here.data(), here.size()), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length), 0);
  const std::uint16_t port = SocketAddress::from_sockaddr(reinterpret_cast<sockaddr*>(&bound), length).port();
  const std::vector<SocketAddress> answers = resolve({"localhost", port}, Family::kAny);
  const bool connected = std::ranges::any_of(answers, [](const SocketAddress& address) {
    const UniqueFd client(::socket(address.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(client.get(), address.data(), address.size()) == 0;
  });
  EXPECT_TRUE(connected) << answers.size() << " answers";
  for (const SocketAddress& address : answers) EXPECT_EQ(std::ranges::count(answers, address), 1);
}

TEST(Resolve, SaysWhetherALaterTryMayHelp) {
  bool temporary = false;
  try {
    resolve({"no-such-host.invalid", 80}, Family::kAny, &temporary);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_TRUE(temporary) << "the name may be known later";
    EXPECT_NE(std::string(error.what()).find("no-such-host.invalid"), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti
