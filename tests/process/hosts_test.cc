// Several hosts: namespaces of network, mounts and host name, joined by a switch. They share a kernel, so its boot id
// says nothing: the library has to find out by itself that memory cannot be shared between them.

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "process/job.h"

namespace tutti {
namespace {

using Addresses = HostNetwork::Addresses;

const std::vector<std::string> kWork = {"join", "sums:20000", "report", "destroy", "descriptors"};

class Hosts : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = Namespace::refusal()) GTEST_SKIP() << *reason;
  }

  void make(const std::vector<Addresses>& addresses) { network_ = std::make_unique<HostNetwork>(addresses); }
  void make(int hosts) { make(std::vector<Addresses>(static_cast<std::size_t>(hosts), Addresses::kIpv4)); }

  // Two ranks a host, rank 0 at `root`.
  std::unique_ptr<Job> start(const std::vector<std::string>& actions, int hosts, const std::string& root = "10.77.0.1",
                             const Environment& environment = {}, const Job::Adapt& adapt = {}) {
    return std::make_unique<Job>(2 * hosts, actions, nullptr, environment, [&](int rank, Program& program) {
      program.place = &network_->host(rank / 2);
      program.environment["TUTTI_COMM_ID"] = root + ":" + kMeetingPort;
      if (adapt) adapt(rank, program);
    });
  }

  static void expect_work(Job& job, int hosts) {
    job.all_ended(0);
    for (int rank = 0; rank < job.ranks(); ++rank) {
      EXPECT_EQ(count_lines(job.rank(rank).text(), "sums right"), 1) << job.rank(rank).text();
      EXPECT_EQ(job.rank(rank).line("hosts "), std::to_string(hosts)) << job.rank(rank).text();
      EXPECT_TRUE(job.rank(rank).line("plan ").ends_with("over shm+tcp")) << job.rank(rank).text();
    }
  }

  std::unique_ptr<HostNetwork> network_;
};

TEST_F(Hosts, TwoOfThemRunEveryCollective) {
  make(2);
  expect_work(*start(kWork, 2), 2);
}

TEST_F(Hosts, ThreeOfThemRunEveryCollective) {
  make(3);
  expect_work(*start(kWork, 3), 3);
}

TEST_F(Hosts, RanksMayAlternateBetweenThem) {
  make(2);
  const auto alternate = [this](int rank, Program& program) { program.place = &network_->host(rank % 2); };
  expect_work(*start(kWork, 2, "10.77.0.1", {}, alternate), 2);
}

TEST_F(Hosts, ReadTheLibrarysBuffersInPlaceOnEachHost) {
  make(2);
  const auto job = start({"join", "library", "sums:200000", "report", "destroy"}, 2);
  expect_work(*job, 2);
  int readers = 0;
  for (int rank = 0; rank < 4; ++rank) readers += job->rank(rank).line("read in place ") != "0" ? 1 : 0;
  EXPECT_GT(readers, 0);
}

// From the first host to the second: small packets pass, large ones vanish. Nobody is told, as the second host asks for
// packets that its own cable does not take.
class SwallowingPath : public Hosts, public testing::WithParamInterface<const char*> {
 protected:
  void make_swallowing() {
    make(2);
    network_->host(0).run("ip link set eth0 gso_max_segs 1");
    network_->host(1).run(
        "ip link set eth0 mtu 1300 && ip route change 10.77.0.0/24 dev eth0 proto kernel scope link src 10.77.0.2 "
        "advmss "
        "1460");
  }
};

TEST_P(SwallowingPath, FailsEveryRankAndSpeaksOfPacketSizes_F93) {
  make_swallowing();
  const std::string what = GetParam();
  const auto job =
      start({"join", what, "destroy"}, 2, "10.77.0.1", {{"TUTTI_SILENCE", "3"}, {"TUTTI_STALL_WARNING", "2"}});
  bool explained = false;
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(job->rank(rank).wait(kPatience)) << "rank " << rank << " is left behind: " << job->rank(rank).text();
    const ToldError told = told_error(job->rank(rank));
    // The root of a broadcast may have handed all of it to its system, and leave.
    const bool may_leave = what.starts_with("broadcast") && rank < 2;
    EXPECT_EQ(job->rank(rank).code(), may_leave && told.code.empty() ? 0 : 3) << job->rank(rank).text();
    explained = explained || (contains(told.message, "MTU") && contains(told.message, "rank "));
  }
  EXPECT_TRUE(explained) << job->rank(0).text() << job->rank(2).text();
}

// Of a long broadcast the root waits, of a short one it leaves.
INSTANTIATE_TEST_SUITE_P(Calls, SwallowingPath,
                         testing::Values("broadcast:3000000", "broadcast:20000", "calls:1:1000000"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, ':', '_');
                           return name;
                         });

TEST_F(Hosts, NeedASecret) {
  make(2);
  const auto job = start({"join"}, 2, "10.77.0.1", {{"TUTTI_MEET_TIMEOUT", "4"}},
                         [](int, Program& program) { program.environment.erase("TUTTI_SECRET"); });
  job->all_ended(3);
  // Those on the root's host wait for the others, who know better.
  for (const int rank : {2, 3}) {
    EXPECT_TRUE(contains(told_error(job->rank(rank)).message, "TUTTI_SECRET")) << job->rank(rank).text();
  }
}

TEST_F(Hosts, F01MeetThoughBothHaveTheSameBridge) {
  make(2);
  for (int host = 0; host < 2; ++host) {
    network_->host(host).run(
        "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up; "
        "ip link add aveth9 type veth peer name aveth8; ip link set aveth9 up; ip link set aveth8 up; "
        "ip link set aveth9 master docker0");
  }
  expect_work(*start(kWork, 2), 2);
}

TEST_F(Hosts, F05MeetThoughDevicesWithoutAddressAreUp) {
  make(2);
  for (int host = 0; host < 2; ++host) {
    network_->host(host).run(
        "for i in 0 1 2 3; do ip link add avf$i type dummy && ip link set avf$i up || exit 0; done");
  }
  expect_work(*start(kWork, 2, "10.77.0.1", {{"TUTTI_SOCKET_IFNAME", "^docker,lo"}}), 2);
}

TEST_F(Hosts, F06MeetOverIpv6Alone) {
  make({Addresses::kIpv6, Addresses::kIpv6});
  for (int host = 0; host < 2; ++host) {
    network_->host(host).run(
        "ip link add aaa0 type veth peer name aaa1; ip link set aaa0 up; ip link set aaa1 up; "
        "ip addr add fe80::77/64 dev aaa0 nodad");
  }
  expect_work(*start(kWork, 2, "[fd77::1]"), 2);
}

TEST_F(Hosts, F07MeetAtRoutableAddressesOfLo) {
  make({Addresses::kIpv6, Addresses::kIpv6});
  for (int host = 0; host < 2; ++host) {
    const std::string own = "10.9.0." + std::to_string(host + 1);
    const std::string other = "10.9.0." + std::to_string(2 - host);
    const std::string by = "fe80::" + std::to_string(2 - host);
    network_->host(host).run("ip addr add fe80::" + std::to_string(host + 1) + "/64 dev eth0 nodad; ip addr add " +
                             own + "/32 dev lo; ip route add " + other + "/32 via inet6 " + by + " dev eth0 src " +
                             own);
  }
  expect_work(*start(kWork, 2, "10.9.0.1", {{"TUTTI_SOCKET_IFNAME", "lo"}, {"TUTTI_SOCKET_FAMILY", "ipv4"}}), 2);
}

TEST_F(Hosts, F08MeetWithBothFamiliesAndWithEitherOne) {
  make({Addresses::kBoth, Addresses::kBoth});
  expect_work(*start(kWork, 2), 2);
  make({Addresses::kBoth, Addresses::kIpv4});
  expect_work(*start(kWork, 2), 2);
}

TEST_F(Hosts, F08NameThoseThatHaveNoFamilyInCommon) {
  make({Addresses::kBoth, Addresses::kIpv4, Addresses::kIpv6});
  const auto job = start({"join", "sums:1000", "destroy"}, 3, "10.77.0.1", {{"TUTTI_MEET_TIMEOUT", "10"}},
                         [](int rank, Program& program) {
                           if (rank >= 4) program.environment["TUTTI_COMM_ID"] = "[fd77::1]:29500";
                         });
  job->all_ended(3);
  bool told = false;
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_NE(told_error(job->rank(rank)).at_ms, -1) << job->rank(rank).text();
    told |= contains(told_error(job->rank(rank)).message, "fd77::3") ||
            contains(told_error(job->rank(rank)).message, "10.77.0.2");
  }
  EXPECT_TRUE(told) << "no address is named:\n" << job->rank(2).text() << job->rank(4).text();
}

TEST_F(Hosts, F09MeetThoughTheRootsNameIsALoopbackAddressAtHome) {
  make(2);
  for (int host = 0; host < 2; ++host) {
    const std::string address = host == 0 ? "127.0.1.1" : "10.77.0.1";
    network_->host(host).run("mount -t tmpfs tmpfs /mnt; printf '127.0.0.1 localhost\\n" + address +
                             " host0\\n' > /mnt/hosts; mount --bind /mnt/hosts /etc/hosts");
  }
  expect_work(*start(kWork, 2, "host0"), 2);
}

TEST_F(Hosts, WorkOverASlowLink) {
  make(2);
  for (int host = 0; host < 2; ++host) {
    const auto refused = network_->host(host).output(
        "tc qdisc add dev eth0 root tbf rate 100mbit burst 32kb latency 400ms 2>&1 || echo refused");
    if (contains(refused, "refused")) GTEST_SKIP() << "tc cannot limit a link here: " << refused;
  }
  expect_work(*start(kWork, 2), 2);
}

TEST_F(Hosts, F27ThatShareADirectoryShareMemory) {
  make(2);
  std::string name = testing::TempDir() + "tutti-hosts-XXXXXX";
  const std::string directory = ::mkdtemp(name.data());
  const auto job =
      start({"join", "library", "sums:20000", "report", "destroy"}, 2, "10.77.0.1", {{"TUTTI_SHM_DIR", directory}});
  job->all_ended(0);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(job->rank(rank).line("hosts "), "1") << job->rank(rank).text();
    EXPECT_TRUE(job->rank(rank).line("plan ").ends_with("over shm")) << job->rank(rank).text();
  }
  EXPECT_EQ(::rmdir(directory.c_str()), 0) << "something is left in it";
}

// Whoever is behind a translation of addresses, or a firewall, can open connections and take none.
class OneWay : public Hosts {
 protected:
  // Drops what opens a connection to this host from another one. Whether that is possible.
  bool close(int host) const {
    const auto refused = network_->host(host).output(
        "nft 'table inet closed { chain i { type filter hook input priority 0; "
        "iifname eth0 tcp flags & (syn | ack) == syn drop; }; }' 2>&1 || echo refused");
    return !contains(refused, "refused");
  }
};

TEST_F(OneWay, HostsThatTakeNoConnectionsOpenThemInstead_F92) {
  make(2);
  if (!close(1)) GTEST_SKIP() << "nft cannot drop packets here";
  expect_work(*start(kWork, 2), 2);
}

// Once they have met, neither side takes connections: everybody learns which two ranks it was, and why.
TEST_F(OneWay, HostsThatTakeNoneOnBothSidesNameBothRanks_F92) {
  make(2);
  if (!close(1)) GTEST_SKIP() << "nft cannot drop packets here";
  const std::string go = testing::TempDir() + "tutti-one-way-" + std::to_string(::getpid());
  const auto job = start({"join", "report", "wait_for:" + go, "sums:2000"}, 2);
  ASSERT_TRUE(job->all_said("plan "));
  ASSERT_TRUE(close(0));
  std::ofstream(go) << "go";
  job->all_ended(3);
  ::unlink(go.c_str());
  for (int rank = 0; rank < 4; ++rank) {
    const std::string text = job->rank(rank).text();
    for (const char* part : {"cannot connect to rank", "no answer", "it says of its own attempts", "TUTTI_PORTS"}) {
      EXPECT_TRUE(contains(text, part)) << part << " in " << text;
    }
  }
}

// No reset, no goodbye: the cable is pulled.
TEST_F(Hosts, F63SilenceOfAHostIsToldToBothSides) {
  make(2);
  const auto job = start({"name:blue", "join", "loop:1000"}, 2, "10.77.0.1", {{"TUTTI_SILENCE", "3"}});
  ASSERT_TRUE(job->all_said("looping"));
  const long long since = now_ms();
  network_->the_switch().run("ip link set port1 down");
  job->all_ended(3);
  for (int rank = 0; rank < 4; ++rank) {
    const ToldError told = told_error(job->rank(rank));
    EXPECT_LT(told.at_ms - since, 20'000) << job->rank(rank).text();
    EXPECT_EQ(told.code, "remote failure") << job->rank(rank).text();
    EXPECT_NE(told.peer / 2, rank / 2) << "the other host is the one that is silent: " << job->rank(rank).text();
    for (const char* part : {"TUTTI_SILENCE", "all_reduce f32×1000", "\"blue\"", rank < 2 ? "(host1" : "(host0"}) {
      EXPECT_TRUE(contains(told.message, part)) << "no " << part << " in " << job->rank(rank).text();
    }
  }
}

// Nobody calls anything while the cable is out: the next call must not hang.
TEST_F(Hosts, F63SilenceWhileIdleEndsTheNextCall) {
  make(2);
  const auto job = start({"name:blue", "join", "calls:3", "say:idle", "sleep:6000", "calls:1"}, 2, "10.77.0.1",
                         {{"TUTTI_SILENCE", "2"}});
  ASSERT_TRUE(job->all_said("idle"));
  network_->the_switch().run("ip link set port1 down");
  job->all_ended(3);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(told_error(job->rank(rank)).code, "remote failure") << job->rank(rank).text();
  }
}

TEST_F(Hosts, DeathOnOneIsToldOnAll) {
  make(3);
  for (const int victim : {0, 3, 5}) {
    const auto job = start({"name:blue", "join", "loop:20000"}, 3);
    ASSERT_TRUE(job->all_said("looping"));
    const long long since = now_ms();
    job->rank(victim).send(9);
    job->all_ended(3, {victim});
    const std::string who = "rank " + std::to_string(victim) + " (host" + std::to_string(victim / 2) + " pid " +
                            std::to_string(job->rank(victim).pid()) + ")";
    for (int rank = 0; rank < 6; ++rank) {
      if (rank == victim) continue;
      const ToldError told = told_error(job->rank(rank));
      EXPECT_LT(told.at_ms - since, 20'000) << job->rank(rank).text();
      EXPECT_EQ(told.peer, victim) << job->rank(rank).text();
      EXPECT_TRUE(contains(told.message, who)) << told.message;
    }
  }
}

}  // namespace
}  // namespace tutti
