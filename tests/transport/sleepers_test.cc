#include "transport/shm/sleepers.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/store_barrier.h"
#include "support/sleeping_host.h"

namespace tutti {
namespace {

using std::chrono::hours;

// How a thread of these tests sleeps until a word has a value: for ever, if it is not woken.
void sleep_on_futex(Sleepers& here, const Word& word, std::uint64_t value) {
  while (observe(word) < value) {
    const std::uint64_t key = here.announce_futex();
    settle_all_processors();
    if (observe(word) < value) here.sleep_on_futex(key, hours(1));
    here.withdraw_futex();
  }
}

void sleep_on_bell(Sleepers& here, const Word& word, std::uint64_t value) {
  while (observe(word) < value) {
    const int place = here.take_place();
    ASSERT_NE(place, Sleepers::kNoPlace);
    const Bell* bell = here.bell_of(place);
    ASSERT_NE(bell, nullptr);
    bell->silence();
    here.announce_bell(place, *bell);
    settle_all_processors();
    pollfd wait{bell->descriptor(), POLLIN, 0};
    if (observe(word) < value) ::poll(&wait, 1, -1);
    here.give_place(place);
  }
}

// The same where the system does not settle the processors of others: publishers pay instead.
void sleep_in_turn(Sleepers& here, const Word& word, std::uint64_t value) {
  here.look_in_turn();
  while (observe(word) < value) {
    const std::uint64_t key = here.announce_futex();
    if (observe(word) < value) here.sleep_on_futex(key, hours(1));
    here.withdraw_futex();
  }
}

using Sleep = std::function<void(Sleepers&, const Word&, std::uint64_t)>;
struct Way {
  const char* name;
  Sleep sleep;
};

unsigned seed() {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
}

bool reduced() { return std::getenv("TUTTI_TEST_REDUCED") != nullptr; }

class WakeUps : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, WakeUps,
                         testing::Values(Way{"Futex", sleep_on_futex}, Way{"Bell", sleep_on_bell},
                                         Way{"InTurn", sleep_in_turn}),
                         [](const auto& info) { return info.param.name; });

// Ranks publish for each other in turn, after a time that makes them meet in all moments: while the other still looks,
// announces, is on its way to sleep, or sleeps. A wake-up that is lost never ends.
TEST_P(WakeUps, AreNeverLost) {
  const unsigned first = seed();
  SCOPED_TRACE("TUTTI_TEST_SEED=" + std::to_string(first));
  std::printf("TUTTI_TEST_SEED=%u\n", first);
  const int turns = reduced() ? 3000 : 20000;
  constexpr int kRanks = 2;
  SleepingHost host(kRanks);
  std::array<PaddedWord, kRanks> turn{};
  const auto rank = [&](int self) {
    std::mt19937 random(first + static_cast<unsigned>(self));
    const auto hesitate = [&random] {
      const auto most = random() % 8 == 0 ? 20000u : 500u;
      for (auto spins = random() % most; spins > 0; --spins) relax_cpu();
    };
    for (int t = 1; t <= turns; ++t) {
      if (self == 0) {
        hesitate();
        publish(turn[0].word, static_cast<std::uint64_t>(t));  // observed by the other's sleep
        if (glance(host[0].asleep()) != 0) host[0].wake(1);
      }
      hesitate();
      GetParam().sleep(host[self], turn[static_cast<std::size_t>(1 - self)].word, static_cast<std::uint64_t>(t));
      if (self == 1) {
        hesitate();
        publish(turn[1].word, static_cast<std::uint64_t>(t));
        if (glance(host[1].asleep()) != 0) host[1].wake(0);
      }
    }
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

// Several threads of a rank, each of whom waits for something of its own, and some on bells.
TEST_P(WakeUps, ReachAllThreadsOfARank) {
  const unsigned first = seed();
  std::printf("TUTTI_TEST_SEED=%u\n", first);
  const int turns = reduced() ? 300 : 3000;
  constexpr int kThreads = 4;
  SleepingHost host(2);
  std::array<PaddedWord, kThreads> asked{}, answered{};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto mine = static_cast<std::size_t>(thread);
      const Sleep& sleep = thread == 0 ? Sleep(sleep_on_bell) : GetParam().sleep;
      for (int t = 1; t <= turns; ++t) {
        sleep(host[1], asked[mine].word, static_cast<std::uint64_t>(t));
        publish(answered[mine].word, static_cast<std::uint64_t>(t));  // observed below
        host[1].tell_others();
      }
    });
  }
  std::mt19937 random(first);
  for (int t = 1; t <= turns; ++t) {
    for (int i = 0; i < kThreads; ++i) {
      for (auto spins = random() % 2000; spins > 0; --spins) relax_cpu();
      publish(asked[static_cast<std::size_t>(i)].word, static_cast<std::uint64_t>(t));
      host[0].tell_others();
    }
    for (int i = 0; i < kThreads; ++i) {
      GetParam().sleep(host[0], answered[static_cast<std::size_t>(i)].word, static_cast<std::uint64_t>(t));
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Sleepers, AreCountedOnceAndForgottenWhenTheyWake) {
  SleepingHost host(2);
  EXPECT_EQ(peek(host[0].asleep()), 0u);
  const std::uint64_t key = host[0].announce_futex();
  host[0].announce_futex();
  const int place = host[0].take_place();
  host[0].announce_bell(place, *host[0].bell_of(place));
  EXPECT_EQ(peek(host[1].asleep()), 2u) << "the futex and a bell";
  host[1].wake(0);
  EXPECT_EQ(peek(host[1].asleep()), 0u);
  EXPECT_TRUE(host[0].futex_changed(key));
  EXPECT_TRUE(host[0].was_rung(place));
  pollfd rung{host[0].bell_of(place)->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&rung, 1, 0), 1);
  host[0].give_place(place);
  host[0].withdraw_futex();
  host[0].withdraw_futex();
  EXPECT_EQ(peek(host[1].asleep()), 0u);
}

TEST(Sleepers, WhoWakesByItselfIsNotWokenAgain) {
  SleepingHost host(2);
  const std::uint64_t key = host[0].announce_futex();
  const int place = host[0].take_place();
  host[0].announce_bell(place, *host[0].bell_of(place));
  host[0].sleep_on_futex(key, std::chrono::milliseconds(1));
  EXPECT_FALSE(host[0].futex_changed(key));
  host[0].withdraw_futex();
  host[0].give_place(place);
  EXPECT_EQ(peek(host[1].asleep()), 0u);
  host[1].wake(0);
  pollfd rung{host[0].bell_of(place)->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&rung, 1, 0), 0);
}

// The sleep looks at the word itself.
TEST(Sleepers, AWakeUpBeforeTheSleepIsNotLost) {
  SleepingHost host(2);
  const std::uint64_t key = host[0].announce_futex();
  host[1].wake(0);
  host[0].announce_futex();  // another thread, which does not hide it
  host[0].sleep_on_futex(key, hours(1));
  host[0].withdraw_futex();
  host[0].withdraw_futex();
}

TEST(Sleepers, ARankThatCannotRingSaysSoAndNobodyReliesOnBells) {
  SleepingHost host(2);
  const int place = host[0].take_place();
  host[0].announce_bell(place, *host[0].bell_of(place));
  note(host.words(0).bells[static_cast<std::size_t>(place)], 0x1234);  // a bell of another network namespace
  host[1].wake(0);
  host[0].give_place(place);
  EXPECT_EQ(host[0].take_place(), Sleepers::kNoPlace);
}

TEST(Sleepers, OneThreadAtATimeHasTheDutyAndTheNextIsWokenForIt) {
  SleepingHost host(1);
  EXPECT_TRUE(host[0].take_duty());
  EXPECT_FALSE(host[0].take_duty());
  const std::uint64_t key = host[0].announce_futex();
  host[0].give_duty();
  EXPECT_TRUE(host[0].futex_changed(key));
  EXPECT_TRUE(host[0].take_duty());
  host[0].withdraw_futex();
}

}  // namespace
}  // namespace tutti
