#include "executor/waiter.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "support/sleeping_host.h"

namespace tutti {
namespace {

using std::chrono::hours;

// A transport of whose messages only the descriptor counts here.
class QuietTransport : public Transport {
 public:
  QuietTransport() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair_.data()), 0); }
  ~QuietTransport() override {
    for (const int end : pair_) ::close(end);
  }
  void bring_news() {
    const char byte = 0;
    EXPECT_EQ(::write(pair_[1], &byte, 1), 1);
  }
  std::string_view name() const override { return "quiet"; }
  void published(Endpoint&) override {}
  void consumed(Endpoint&) override {}
  void post(Endpoint&, std::byte*, std::uint32_t, std::uint64_t) override {}
  void withdraw(Endpoint&) override {}
  bool progress() override {
    char byte = 0;
    return ::read(pair_[0], &byte, 1) == 1;
  }
  bool flush() override { return true; }
  int descriptor() const override { return pair_[0]; }

 private:
  std::array<int, 2> pair_;
};

unsigned seed() {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  const unsigned value = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::printf("TUTTI_TEST_SEED=%u\n", value);
  return value;
}

int turns() { return std::getenv("TUTTI_TEST_REDUCED") != nullptr ? 200 : 1000; }

// Where these tests sleep, it is for ever unless somebody wakes them.
void wait_for(const Word& word, std::uint64_t value, std::span<Sleepers* const> sleepers,
              std::span<Transport* const> transports) {
  Waiter waiter(sleepers, transports, false);
  waiter.sleep_so_long(hours(1));
  while (observe(word) < value) {
    bool moved = false;
    for (Transport* transport : transports) moved |= transport->progress();
    if (moved) waiter.reset();
    if (moved) sleepers.front()->tell_own();
    if (observe(word) < value) waiter.pause();
  }
}

// Mostly so long that the other has come to sleep.
void hesitate(std::mt19937& random) {
  if (random() % 4 == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
}

TEST(Waiter, IsWokenByWhatIsPublishedForItsRank) {
  std::mt19937 random(seed());
  SleepingHost host(2);
  std::array<PaddedWord, 2> word{};
  std::thread other([&] {
    Sleepers* const here = &host[1];
    for (int t = 1; t <= turns(); ++t) {
      wait_for(word[0].word, static_cast<std::uint64_t>(t), std::span(&here, 1), {});
      publish(word[1].word, static_cast<std::uint64_t>(t));  // observed by wait_for()
      host[1].tell_others();
    }
  });
  Sleepers* const here = &host[0];
  for (int t = 1; t <= turns(); ++t) {
    hesitate(random);
    publish(word[0].word, static_cast<std::uint64_t>(t));
    host[0].tell_others();
    wait_for(word[1].word, static_cast<std::uint64_t>(t), std::span(&here, 1), {});
  }
  other.join();
}

// One thread carries calls of several ranks, or communicators, on.
TEST(Waiter, IsWokenByEachOfSeveralCommunicators) {
  std::mt19937 random(seed());
  constexpr int kHosts = 3;
  std::vector<std::unique_ptr<SleepingHost>> hosts;
  std::array<Sleepers*, kHosts> here;
  for (auto& sleepers : here) sleepers = &(*hosts.emplace_back(std::make_unique<SleepingHost>(2)))[1];
  PaddedWord asked{}, answered{};
  std::thread other([&] {
    for (int t = 1; t <= turns(); ++t) {
      wait_for(asked.word, static_cast<std::uint64_t>(t), here, {});
      publish(answered.word, static_cast<std::uint64_t>(t));  // observed by wait_for()
      for (Sleepers* sleepers : here) sleepers->tell_others();
    }
  });
  for (int t = 1; t <= turns(); ++t) {
    SleepingHost& host = *hosts[random() % kHosts];
    hesitate(random);
    publish(asked.word, static_cast<std::uint64_t>(t));
    host[0].tell_others();
    Sleepers* const there = &host[0];
    wait_for(answered.word, static_cast<std::uint64_t>(t), std::span(&there, 1), {});
  }
  other.join();
}

// Whoever has the duty to listen takes news for the others, too, and gives the duty to one of them when he goes.
TEST(Waiter, OneOfSeveralListensToTheTransportForAll) {
  std::mt19937 random(seed());
  constexpr int kThreads = 4;
  SleepingHost host(2);
  QuietTransport quiet;
  std::array<PaddedWord, kThreads> asked{}, answered{};
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Sleepers* const here = &host[1];
      Transport* const transport = &quiet;
      for (int t = 1; t <= turns(); ++t) {
        wait_for(asked[thread].word, static_cast<std::uint64_t>(t), std::span(&here, 1), std::span(&transport, 1));
        publish(answered[thread].word, static_cast<std::uint64_t>(t));  // observed by wait_for()
        host[1].tell_others();
      }
    });
  }
  Sleepers* const here = &host[0];
  for (int t = 1; t <= turns(); ++t) {
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      publish(asked[thread].word, static_cast<std::uint64_t>(t));
      // Over the transport, which wakes one thread, or in shared memory.
      if (random() % 2 == 0) {
        quiet.bring_news();
      } else {
        host[0].tell_others();
      }
    }
    hesitate(random);
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      wait_for(answered[thread].word, static_cast<std::uint64_t>(t), std::span(&here, 1), {});
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti
