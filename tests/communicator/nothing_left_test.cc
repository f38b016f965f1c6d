#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "communicator/shared_memory.h"
#include "communicator/values.h"
#include "support/ranks.h"
#include "support/threads.h"
#include "tutti/memory.h"

namespace tutti {
namespace {

// What a process holds.
struct Holdings {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t shared_mappings = 0;

  bool operator==(const Holdings&) const = default;
  static Holdings now() {
    Holdings holdings;
    using Directory = std::filesystem::directory_iterator;
    holdings.descriptors = static_cast<std::size_t>(std::distance(Directory("/proc/self/fd"), Directory()));
    holdings.threads = static_cast<std::size_t>(std::distance(Directory("/proc/self/task"), Directory()));
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      const std::size_t permissions = line.find(' ') + 1;
      holdings.shared_mappings += line[permissions + 3] == 's';
    }
    return holdings;
  }
};
std::ostream& operator<<(std::ostream& out, const Holdings& holdings) {
  return out << holdings.descriptors << " descriptors, " << holdings.threads << " threads, " << holdings.shared_mappings
             << " shared mappings";
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

// A thread that was joined may still be listed for a moment.
void expect_back_to(const Holdings& before) {
  for (int i = 0; i < 1000 && Holdings::now() != before; ++i) pause();
  EXPECT_EQ(Holdings::now(), before);
}

void use(Communicator& communicator) {
  constexpr std::size_t kCount = 30'000;
  auto* shared = static_cast<float*>(allocate(kCount * sizeof(float)));
  std::vector<float> own(kCount, 1);
  communicator.all_reduce(own.data(), own.data(), kCount, DataType::kF32, kSum);
  communicator.all_reduce(own.data(), shared, 10, DataType::kF32, kSum);
  communicator.all_reduce(shared, shared, kCount, DataType::kF32, kSum);
  const int next = (communicator.rank() + 1) % communicator.ranks();
  if (communicator.rank() % 2 == 0 && next != 0) communicator.send(own.data(), kCount, DataType::kF32, next);
  if (communicator.rank() % 2 == 1) communicator.recv(own.data(), kCount, DataType::kF32, communicator.rank() - 1);
  communicator.barrier();
  deallocate(shared);
}

class NothingIsLeft : public testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override {
    if (!kSeesSharedMemory) GTEST_SKIP() << kWhyItDoesNot;
    // The heap behind allocate() and the machine's description stay for the life of the process.
    expect_ranks(2, use);
    threads_left(1);
  }
  static int rounds() { return reduced() ? 5 : 50; }
};
INSTANTIATE_TEST_SUITE_P(Placements, NothingIsLeft,
                         testing::Values(std::vector{0, 0}, std::vector{0, 1}, std::vector{0, 0, 0, 0, 0},
                                         std::vector{0, 1, 2, 3, 4}, std::vector{0, 0, 1, 1, 0}),
                         [](const auto& info) {
                           std::string name;
                           for (const int host : info.param) name += std::to_string(host);
                           return "Hosts" + name;
                         });

TEST_P(NothingIsLeft, OfCommunicatorsThatEnded_F61) {
  const auto ranks = static_cast<int>(GetParam().size());
  const Holdings before = Holdings::now();
  for (int i = 0; i < rounds(); ++i) expect_ranks(ranks, use, on_hosts(GetParam()));
  expect_back_to(before);
}

// Splits, splits of splits, destroyed in another order on every rank; some fail.
TEST_P(NothingIsLeft, OfCommunicatorsThatWereSplitOff_F61) {
  const auto ranks = static_cast<int>(GetParam().size());
  const Holdings before = Holdings::now();
  for (int i = 0; i < rounds() / 2; ++i) {
    run_ranks(
        ranks,
        [i](Communicator& world) {
          std::optional<Communicator> all = world.split(0, -world.rank());
          std::optional<Communicator> some = all->split(world.rank() == 0 ? -1 : 0, 0);
          use(*all);
          if (some) use(*some);
          if (i % 4 == 1 && world.rank() == 1) throw std::runtime_error("gone");
          if (i % 4 == 2) all->barrier();
          const int order = (i + world.rank()) % 3;
          if (order == 0) world.destroy();
          if (order == 1) all.reset();
          if (some) some->destroy();
          if (order == 2) world.destroy();
        },
        on_hosts(GetParam()));
  }
  expect_back_to(before);
}

// All ranks have left the control connections to their neighbours alone: a split adds a segment for each rank, and
// what it opens by itself to talk to other hosts.
TEST(Descriptors, OfASplitAreItsMemoryAndNoControlConnections) {
  constexpr int kRanks = 12;
  Holdings before;
  const auto look = [](Communicator& world, const std::function<void()>& at_rank_0) {
    world.barrier();
    if (world.rank() == 0) at_rank_0();
    world.barrier();
  };
  expect_ranks(kRanks, [&](Communicator& world) {
    std::vector<float> values(30'000, 1);
    world.all_reduce(values.data(), values.data(), values.size(), DataType::kF32, kSum);
    look(world, [&] { before = Holdings::now(); });
    std::optional<Communicator> child = world.split(world.rank() % 3, 0);
    child->all_reduce(values.data(), values.data(), values.size(), DataType::kF32, kSum);
    look(world, [&] {
      EXPECT_LE(Holdings::now().descriptors, before.descriptors + kRanks);
      EXPECT_LE(Holdings::now().threads, before.threads);
    });
    child.reset();
    // What was left of the meeting when it was looked at first may be gone.
    look(world, [&] {
      const auto back = [&] {
        const Holdings now = Holdings::now();
        return now.descriptors <= before.descriptors && now.threads <= before.threads &&
               now.shared_mappings <= before.shared_mappings;
      };
      for (int i = 0; i < 1000 && !back(); ++i) pause();
      EXPECT_TRUE(back()) << Holdings::now() << ", before " << before;
    });
  });
}

TEST_P(NothingIsLeft, OfCommunicatorsThatFailed) {
  const auto ranks = static_cast<int>(GetParam().size());
  const Holdings before = Holdings::now();
  for (int i = 0; i < rounds() / 5; ++i) {
    // By a rank that throws, by a mismatch, by a setting that is found wrong after the ranks have met.
    run_ranks(
        ranks,
        [](Communicator& communicator) {
          use(communicator);
          if (communicator.rank() == 1) throw std::runtime_error("gone");
          communicator.barrier();
        },
        on_hosts(GetParam()));
    run_ranks(
        ranks,
        [](Communicator& communicator) {
          std::vector<int> values(50'000);
          const auto count = static_cast<std::size_t>(50'000 - communicator.rank());
          communicator.all_reduce(values.data(), values.data(), count, DataType::kI32, kSum);
        },
        on_hosts(GetParam()));
    RankSetup impossible = on_hosts(GetParam());
    impossible.options.config["TUTTI_ALGO"] = "nonsense";
    run_ranks(
        ranks, [](Communicator&) {}, impossible);
  }
  expect_back_to(before);
}

// Streams that end with calls, without any, with a communicator that failed, and in a callback of theirs.
TEST_P(NothingIsLeft, OfAThousandStreams) {
  const auto ranks = static_cast<int>(GetParam().size());
  const int streams = reduced() ? 50 : 1000;
  const Holdings before = Holdings::now();
  run_ranks(
      ranks,
      [streams](Communicator& communicator) {
        for (int i = 0; i < streams / communicator.ranks(); ++i) {
          const HostStream unused;
          std::vector<int> values(100, 1);
          HostStream stream;
          communicator.all_reduce(values.data(), values.data(), values.size(), DataType::kI32, kSum, stream);
          if (i % 2 == 0) communicator.barrier(stream).then([](const Work&) {});
          if (i % 3 == 0) communicator.barrier();
          auto own = std::make_unique<HostStream>();
          std::atomic<bool> gone{false};
          communicator.barrier(*own).then([&](const Work&) {
            own.reset();
            gone = true;
          });
          stream.synchronize();
          while (!gone) std::this_thread::yield();
        }
        HostStream stream;
        communicator.barrier(stream);
        const Work work = communicator.barrier(stream);
        if (communicator.rank() == 0) communicator.abort();
      },
      on_hosts(GetParam()));
  expect_back_to(before);
}

}  // namespace
}  // namespace tutti
