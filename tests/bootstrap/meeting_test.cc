#include "meeting.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <sstream>

#include "bootstrap/connection.h"
#include "bootstrap/hand_out.h"
#include "bootstrap/introduction.h"
#include "bootstrap/reach_root.h"
#include "bootstrap/sockets.h"
#include "support/descriptors.h"
#include "support/threads.h"

namespace tutti {
namespace {

std::vector<std::byte> some_bytes(int rank) {
  return std::vector<std::byte>(static_cast<std::size_t>(rank * 7 % 40), static_cast<std::byte>(rank));
}

class Sizes : public testing::TestWithParam<int> {};

TEST_P(Sizes, MeetAndExchange) {
  const int ranks = GetParam();
  TestRanks made = meet_all(ranks);
  expect_all_met(made);
  in_threads(ranks, [&](int rank) {
    for (int round = 0; round < 3; ++round) {
      const auto all = made[rank]->plane->all_gather(some_bytes(rank + round), Clock::now() + std::chrono::seconds(20));
      ASSERT_EQ(all.size(), ranks);
      for (int r = 0; r < ranks; ++r) EXPECT_EQ(all[r], some_bytes(r + round));
    }
  });
  leave_all(made);
  for (const auto& rank : made) EXPECT_FALSE(rank->health.failed()) << rank->health.reason().what();
}

INSTANTIATE_TEST_SUITE_P(Meeting, Sizes, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 21, 22, 33));

long resident_kib() {
  long total = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

TEST(Meeting, LeavesNothingBehind) {
  leave_all(*std::make_unique<TestRanks>(meet_all(5)));
  const std::size_t descriptors = open_descriptors();
  const std::size_t threads_before = threads_left(1);
  for (int i = 0; i < 5; ++i) {
    TestRanks made = meet_all(5);
    expect_all_met(made);
    if (i % 2 == 0) leave_all(made);  // otherwise without a goodbye
  }
  EXPECT_LE(threads_left(threads_before), threads_before);
  EXPECT_LE(open_descriptors(), descriptors);
}

TEST(Meeting, AThousandRanksInOneProcess) {
  constexpr int kRanks = 1000;
  const long resident_before = resident_kib();
  const auto began = std::chrono::steady_clock::now();
  TestRanks made = meet_all(kRanks);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  expect_all_met(made);
  const std::size_t descriptors = open_descriptors();
  std::printf("%d ranks as threads of one process met in %.2f s, with %.1f descriptors and %ld KiB a rank\n", kRanks,
              took.count(), static_cast<double>(descriptors) / kRanks, (resident_kib() - resident_before) / kRanks);
  EXPECT_LE(descriptors, 16u * kRanks);
  leave_all(made);
  for (const auto& rank : made) ASSERT_FALSE(rank->health.failed()) << rank->health.reason().what();
}

// Whether one of the lines that this rank wrote because it waits ends so.
testing::AssertionResult says(const std::string& log, int rank, const std::string& what) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t who = line.find("rank " + std::to_string(rank) + " has waited ");
    if (who != std::string::npos && line.find(what, who) != std::string::npos) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "rank " << rank << " does not wait \"" << what << "\": " << log;
}

// A rank that is stopped as soon as all know of it: it has introduced itself and does nothing more.
TEST(Meeting, NamesARankThatStopsWhileTheyConnect) {
  constexpr int kRanks = 3;
  const auto process = Process::get();
  const UniqueId id = UniqueId::create();
  TestRanks made = make_ranks(kRanks);
  testing::internal::CaptureStderr();
  in_threads(kRanks, [&](int rank) {
    Membership membership = membership_from_id(id, rank, kRanks);
    if (rank != 1) return meet(*made[rank], membership, {{"TUTTI_MEET_TIMEOUT", "2"}, {"TUTTI_STALL_WARNING", "1"}});
    const Config config = test_config();
    EventLoop loop;
    ReachedRoot reached = reach_root(loop, membership, config, {}, Clock::now() + std::chrono::seconds(20));
    Introduction introduction;
    introduction.agreement = config.agreement_hash();
    introduction.agreement_text = config.agreement_text();
    introduction.patience_ms = 20'000;
    introduction.host = {"somewhere", "else", {"127.0.0.1"}};
    introduction.pid = 4711;
    introduction.port = 1;
    std::promise<void> told;
    std::shared_ptr<Connection> connection;
    loop.call([&] {
      connection = std::make_shared<Connection>(loop, std::move(reached.socket), 1 << 20);
      connection->start(
          [&](FrameType type, auto) {
            if (type == FrameType::kRefused) told.set_value();
          },
          [](const auto&) {});
      connection->send(FrameType::kIntroduction, introduction.encode());
    });
    told.get_future().wait();
    loop.call([&] { connection->close(); });
  });
  const std::string log = testing::internal::GetCapturedStderr();
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(says(log, rank, "though all ranks are here: rank 1 (somewhere pid 4711) has not connected to rank 0"));
    ASSERT_NE(made[rank]->error, nullptr);
    EXPECT_EQ(made[rank]->error->code(), ErrorCode::kTimeout);
    EXPECT_NE(std::string(made[rank]->error->what()).find("rank 1 (somewhere pid 4711) has not connected to rank 0"),
              std::string::npos)
        << made[rank]->error->what();
  }
}

TEST(Meeting, NamesTheRanksThatAreMissing) {
  constexpr int kRanks = 6;
  const UniqueId id = UniqueId::create();
  TestRanks made = make_ranks(kRanks);
  in_threads(kRanks, [&](int rank) {
    if (rank == 2 || rank == 5) return;
    meet(*made[rank], membership_from_id(id, rank, kRanks), {{"TUTTI_MEET_TIMEOUT", "3"}});
  });
  for (const int rank : {0, 1, 3, 4}) {
    ASSERT_NE(made[rank]->error, nullptr);
    EXPECT_EQ(made[rank]->error->code(), ErrorCode::kTimeout);
    EXPECT_NE(std::string(made[rank]->error->what()).find("ranks 2, 5 (4 of 6 here)"), std::string::npos)
        << made[rank]->error->what();
  }
}

TEST(Meeting, SaysOnEveryRankWhoIsMissingWhileItWaits) {
  testing::internal::CaptureStderr();
  TestRanks made = make_ranks(4);
  const UniqueId id = UniqueId::create();
  in_threads(3, [&](int rank) {
    meet(*made[rank], membership_from_id(id, rank, 4), {{"TUTTI_MEET_TIMEOUT", "3"}, {"TUTTI_STALL_WARNING", "1"}});
  });
  const std::string log = testing::internal::GetCapturedStderr();
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(says(log, rank, "for rank 3 (3 of 4 here)"));
  EXPECT_EQ(log.find("its root has waited"), std::string::npos) << "ranks of its process have said it: " << log;
}

TEST(Meeting, SaysNothingWhileItWaitsWhereThatIsNotWanted) {
  testing::internal::CaptureStderr();
  TestRanks made = make_ranks(2);
  meet(*made[1], membership_at("127.0.0.1:" + std::to_string(free_port()), 1, 2),
       {{"TUTTI_MEET_TIMEOUT", "2"}, {"TUTTI_STALL_WARNING", "0"}});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_NE(made[1]->error, nullptr);
}

// Nobody gave the ranks a secret: rank 0 makes one and hands it out to processes of its user.
TEST(Meeting, ThroughAHandOutAgainAndAgain) {
  const std::string name = hand_out_name("meeting test " + std::to_string(::getpid()));
  in_threads(4, [&](int rank) {
    for (int i = 0; i < 20; ++i) {
      TestRank mine(4);
      Membership membership;
      membership.rank = rank;
      membership.ranks = 4;
      membership.roots = {{"127.0.0.1", 0}};
      membership.hand_out = name;
      membership.loopback_only = true;
      if (rank == 0) {
        membership.secret = Key::random();
        membership.nonce = random_nonce();
      }
      meet(mine, membership);
      ASSERT_EQ(mine.error, nullptr) << mine.error->what();
      mine.plane->leave(0);
    }
  });
}

TEST(Meeting, WaitsForARootThatIsStartedLater) {
  const std::string port = std::to_string(free_port());
  TestRanks made = make_ranks(3);
  in_threads(3, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    meet(*made[rank], membership_at("localhost:" + port, rank, 3));
  });
  expect_all_met(made);
  leave_all(made);
}

TEST(Meeting, WithoutARootEndsAtTheDeadlineAndSaysWhere) {
  TestRank rank(2);
  const std::string place = "127.0.0.1:" + std::to_string(free_port());
  meet(rank, membership_at(place, 1, 2), {{"TUTTI_MEET_TIMEOUT", "1"}});
  ASSERT_NE(rank.error, nullptr);
  EXPECT_EQ(rank.error->code(), ErrorCode::kTimeout);
  EXPECT_NE(std::string(rank.error->what()).find(place), std::string::npos) << rank.error->what();
}

TEST(Meeting, OnOnePortAgainAndAgain) {
  const std::string place = "127.0.0.1:" + std::to_string(free_port());
  in_threads(3, [&](int rank) {
    for (int i = 0; i < 40; ++i) {
      TestRank mine(3);
      meet(mine, membership_at(place, rank, 3));
      ASSERT_EQ(mine.error, nullptr) << mine.error->what();
      mine.plane->leave(0);
    }
  });
}

TEST(Meeting, OnAPortThatIsTakenSaysWhichPort) {
  const int port = free_port();
  const UniqueFd taken = listen_on(SocketAddress::parse("127.0.0.1", static_cast<std::uint16_t>(port)));
  TestRank rank(2);
  meet(rank, membership_at("127.0.0.1:" + std::to_string(port), 0, 2));
  ASSERT_NE(rank.error, nullptr);
  EXPECT_EQ(rank.error->code(), ErrorCode::kSystem);
  EXPECT_NE(std::string(rank.error->what()).find(std::to_string(port)), std::string::npos) << rank.error->what();
}

TEST(Meeting, WithAnIdThatWasUsedIsAnError) {
  const UniqueId id = UniqueId::create();
  for (int round = 0; round < 2; ++round) {
    TestRanks made = make_ranks(2);
    in_threads(2, [&](int rank) { meet(*made[rank], membership_from_id(id, rank, 2)); });
    if (round == 0) {
      expect_all_met(made);
      leave_all(made);
      continue;
    }
    for (const auto& rank : made) {
      ASSERT_NE(rank->error, nullptr);
      EXPECT_NE(std::string(rank->error->what()).find("used already"), std::string::npos) << rank->error->what();
    }
  }
}

TEST(Meeting, WithAnIdInUseIsAnError) {
  const UniqueId id = UniqueId::create();
  TestRanks made = make_ranks(2);
  in_threads(2, [&](int rank) { meet(*made[rank], membership_from_id(id, rank, 2)); });
  expect_all_met(made);
  TestRank late(2);
  meet(late, membership_from_id(id, 1, 2));
  ASSERT_NE(late.error, nullptr);
  EXPECT_NE(std::string(late.error->what()).find("used already"), std::string::npos) << late.error->what();
  EXPECT_FALSE(made[0]->health.failed());
  leave_all(made);
}

// Nobody else has any business there.
TEST(Meeting, ClosesThePortOfAnIdWhenAllAreHere) {
  const UniqueId id = UniqueId::create();
  const Membership membership = membership_from_id(id, 0, 2);
  const SocketAddress root = SocketAddress::loopback(Family::kIpv4, membership.roots.front().port);
  const auto listens = [&root] {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(socket.get(), root.data(), root.size()) == 0;
  };
  EXPECT_TRUE(listens());
  TestRanks made = make_ranks(2);
  in_threads(2, [&](int rank) { meet(*made[rank], membership_from_id(id, rank, 2)); });
  expect_all_met(made);
  EXPECT_FALSE(listens());
  leave_all(made);
}

TEST(Meeting, OfSeveralCommunicatorsAtOnce) {
  constexpr int kCommunicators = 4;
  std::vector<TestRanks> made(kCommunicators);
  in_threads(kCommunicators, [&](int which) { made[which] = meet_all(5); });
  for (TestRanks& ranks : made) {
    expect_all_met(ranks);
    leave_all(ranks);
  }
}

void ignore_signal(int) {}

TEST(Meeting, IsNotDisturbedBySignals) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = ignore_signal;  // without SA_RESTART
  ::sigaction(SIGALRM, &action, &before);
  const itimerval often{{0, 1000}, {0, 1000}};
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  for (int i = 0; i < 10; ++i) {
    TestRanks made = meet_all(5);
    expect_all_met(made);
    leave_all(made);
  }
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
}

TEST(Meeting, GivesTheSameKeysToAllAndOthersToTheNext) {
  const std::string place = "127.0.0.1:" + std::to_string(free_port());
  std::vector<std::byte> earlier;
  for (int round = 0; round < 2; ++round) {
    TestRanks made = make_ranks(2);
    in_threads(2, [&](int rank) { meet(*made[rank], membership_at(place, rank, 2)); });
    expect_all_met(made);
    const auto key = made[0]->plane->derive_key("segment");
    EXPECT_EQ(key.size(), 32);
    EXPECT_EQ(key, made[1]->plane->derive_key("segment"));
    EXPECT_NE(key, made[0]->plane->derive_key("doorbell"));
    EXPECT_NE(key, earlier);
    earlier = key;
    leave_all(made);
  }
}

}  // namespace
}  // namespace tutti
