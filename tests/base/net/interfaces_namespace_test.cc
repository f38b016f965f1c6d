#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "base/net/interfaces.h"
#include "tutti/error.h"

namespace tutti {
namespace {

// Each test sees a network namespace of its own: a thread enters it, `ip` makes it, and it is gone with the thread.
class InterfacesInANamespace : public testing::Test {
 protected:
  void inside(const std::string& commands, const std::function<void()>& check) {
    std::string skipped;
    std::thread thread([&] {
      if (::unshare(CLONE_NEWNET) != 0) {
        skipped = "this user may not make network namespaces";
      } else if (std::system("ip -Version >/dev/null 2>&1") != 0) {
        skipped = "there is no ip command";
      } else if (std::system(("set -e; ip link set lo up; " + commands).c_str()) != 0) {
        skipped = "this kernel cannot make the interfaces of the test";
      } else {
        check();
      }
    });
    thread.join();
    if (!skipped.empty()) GTEST_SKIP() << skipped;
  }

  static std::string chosen(const std::string& list = "") {
    InterfaceRules rules;
    rules.filter = NameFilter(list);
    rules.filter_text = list;
    rules.filter_origin = "TUTTI_SOCKET_IFNAME";
    std::string text;
    for (const InterfaceRecord& record : choose_interfaces(read_interfaces(), rules)) {
      text +=
          (text.empty() ? "" : ", ") + record.name + " " + record.address.host() + "/" + std::to_string(record.prefix);
    }
    return text;
  }
};

// Two ends of a cable; without the addresses that the kernel gives by itself.
std::string cable(const std::string& one, const std::string& other) {
  return "ip link add " + one + " type veth peer name " + other + "; for i in " + one + " " + other +
         "; do ip link set $i addrgenmode none; ip link set $i up; done; ";
}

TEST_F(InterfacesInANamespace, F01PassOverTheBridgeThatComesFirst) {
  inside(
      "ip link add docker0 type bridge; ip link set docker0 addrgenmode none; ip addr add 172.17.0.1/16 dev docker0; "
      "ip link set docker0 up; " +
          cable("eth0", "veth9") + "ip addr add 10.1.0.2/24 dev eth0",
      [] { EXPECT_EQ(chosen(), "eth0 10.1.0.2/24, docker0 172.17.0.1/16"); });
}

TEST_F(InterfacesInANamespace, F05AreListedWithTheReasonWhyTheyWereDropped) {
  inside(cable("vf0", "vf1") + "ip link set vf1 down", [] {
    EXPECT_EQ(chosen(), "lo 127.0.0.1/8, lo ::1/128");
    try {
      chosen("^docker,lo");
      ADD_FAILURE();
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("lo 127.0.0.1 (is not matched)"), std::string::npos) << message;
      EXPECT_NE(message.find("vf0 (has no IP address)"), std::string::npos) << message;
      EXPECT_NE(message.find("vf1 (is down)"), std::string::npos) << message;
    }
  });
}

TEST_F(InterfacesInANamespace, F06PreferAGlobalAddressToALinkLocalOne) {
  inside(cable("aaa0", "aaa1") + cable("net0", "net1") +
             "ip addr add fe80::1/64 dev aaa0 nodad; ip addr add 2001:db8::2/64 dev net0 nodad",
         [] {
           EXPECT_EQ(chosen(), "net0 2001:db8::2/64");
           EXPECT_EQ(chosen("aaa"), "aaa0 fe80::1%aaa0/64") << "with its scope";
         });
}

TEST_F(InterfacesInANamespace, F07UseTheRoutableAddressOfLo) {
  inside(cable("eth0", "eth1") + "ip addr add 10.9.0.1/32 dev lo; ip addr add fe80::1/64 dev eth0 nodad", [] {
    EXPECT_EQ(chosen("lo"), "lo 10.9.0.1/32");
    EXPECT_EQ(chosen(), "lo 10.9.0.1/32");
  });
}

TEST_F(InterfacesInANamespace, F11AreThoseOfTheNamespaceWhateverSysShows) {
  // /sys still shows the devices of the namespace in which it was mounted.
  inside(cable("mine0", "mine1"), [] {
    std::set<std::string> names;
    for (const InterfaceRecord& record : read_interfaces()) names.insert(record.name);
    EXPECT_EQ(names, (std::set<std::string>{"lo", "mine0", "mine1"}));
  });
}

}  // namespace
}  // namespace tutti
