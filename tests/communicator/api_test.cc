#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "base/log.h"
#include "support/ranks.h"

namespace tutti {
namespace {

std::vector<int> iota(int first, std::size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kSystem;
}

void expect_sum(Communicator& communicator, int value = 1) {
  int sum = 0;
  communicator.all_reduce(&value, &sum, 1, DataType::kI32, kSum);
  EXPECT_EQ(sum, value * communicator.ranks());
}

TEST(Communicator, KnowsWhoItIs) {
  RankSetup setup;
  setup.options.name = "dp";
  std::array<int, 3> seen{};
  expect_ranks(
      3,
      [&seen](Communicator& communicator) {
        ++seen[static_cast<std::size_t>(communicator.rank())];
        EXPECT_EQ(communicator.ranks(), 3);
        EXPECT_EQ(communicator.hosts(), 1);
        EXPECT_EQ(communicator.name(), "dp");
      },
      setup);
  EXPECT_EQ(seen, (std::array{1, 1, 1}));
}

TEST(Communicator, CountsHostsAndNamesTheirTransports) {
  expect_ranks(
      3,
      [](Communicator& communicator) {
        EXPECT_EQ(communicator.hosts(), 2);
        EXPECT_TRUE(communicator.plan("all_reduce", 10, DataType::kF32).ends_with(" over shm+tcp"));
      },
      on_hosts({0, 1, 0}));
  expect_ranks(
      2,
      [](Communicator& communicator) {
        EXPECT_EQ(communicator.hosts(), 2);
        EXPECT_TRUE(communicator.plan("broadcast", 10, DataType::kF32).ends_with(" over tcp"));
      },
      over_tcp());
}

TEST(Communicator, TellsWhatItWouldDo) {
  expect_ranks(
      2,
      [](Communicator& communicator) {
        EXPECT_EQ(communicator.plan("all_reduce", 1 << 20, DataType::kF32), "ring over shm");
        EXPECT_EQ(code_of([&] { communicator.plan("all_produce", 1, DataType::kF32); }), ErrorCode::kInvalidArgument);
      },
      with_config({{"TUTTI_ALGO", "ring"}}));
}

TEST(Communicator, CountsCallsAndBytes) {
  expect_ranks(2, [](Communicator& communicator) {
    std::vector<float> input(10), output(20);
    for (int i = 0; i < 3; ++i) communicator.all_gather(input.data(), output.data(), 10, DataType::kF32);
    const std::size_t counts[] = {3, 10};
    communicator.all_gather_v(input.data(), output.data(), counts, {}, DataType::kF32);
    communicator.barrier();
    if (communicator.rank() == 0) {
      communicator.send(input.data(), 7, DataType::kF32, 1);
    } else {
      communicator.recv(output.data(), 7, DataType::kF32, 0);
    }
    const Statistics statistics = communicator.statistics();
    EXPECT_EQ(statistics.collectives.at("all_gather").calls, 3u);
    EXPECT_EQ(statistics.collectives.at("all_gather").bytes, 3u * 20 * sizeof(float));
    EXPECT_EQ(statistics.collectives.at("all_gather_v").calls, 1u);
    EXPECT_EQ(statistics.collectives.at("all_gather_v").bytes, 13 * sizeof(float));
    EXPECT_EQ(statistics.collectives.at("barrier").calls, 1u);
    EXPECT_EQ(statistics.collectives.at("all_reduce").calls, 0u);
    const char* moved = communicator.rank() == 0 ? "send" : "recv";
    EXPECT_EQ(statistics.collectives.at(moved).calls, 1u);
    EXPECT_EQ(statistics.collectives.at(moved).bytes, 7 * sizeof(float));
    EXPECT_EQ(statistics.collectives.size(), 14u);
    EXPECT_GT(statistics.setup_seconds, 0);
  });
}

TEST(Spans, ServeEveryCall) {
  expect_ranks(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const std::vector<int> mine = iota(10 * rank, 2);
    const std::vector<int> all = iota(100 * rank, 6);
    const auto in = [](const std::vector<int>& values) { return std::span<const int>(values); };
    const auto out = [](std::vector<int>& values) { return std::span<int>(values); };

    std::vector<int> two(2), six(6), none;
    communicator.all_reduce(in(mine), out(two));
    EXPECT_EQ(two, (std::vector{30, 33}));
    communicator.all_reduce(in(mine), out(two), kMax);
    EXPECT_EQ(two, (std::vector{20, 21}));
    communicator.all_gather(in(mine), out(six));
    EXPECT_EQ(six, (std::vector{0, 1, 10, 11, 20, 21}));
    communicator.reduce_scatter(in(all), out(two));
    EXPECT_EQ(two, (std::vector{300 + 6 * rank, 303 + 6 * rank}));
    two = mine;
    communicator.broadcast(out(two), 2);
    EXPECT_EQ(two, (std::vector{20, 21}));
    two = {-1, -1};
    communicator.reduce(in(mine), rank == 1 ? out(two) : out(none), kSum, 1);
    EXPECT_EQ(two, rank == 1 ? (std::vector{30, 33}) : (std::vector{-1, -1}));
    six.assign(6, -1);
    communicator.gather(in(mine), rank == 2 ? out(six) : out(none), 2);
    EXPECT_EQ(six, rank == 2 ? (std::vector{0, 1, 10, 11, 20, 21}) : std::vector<int>(6, -1));
    communicator.scatter(rank == 1 ? in(all) : in(none), out(two), 1);
    EXPECT_EQ(two, (std::vector{100 + 2 * rank, 101 + 2 * rank}));
    communicator.all_to_all(in(all), out(six));
    EXPECT_EQ(six,
              (std::vector{2 * rank, 1 + 2 * rank, 100 + 2 * rank, 101 + 2 * rank, 200 + 2 * rank, 201 + 2 * rank}));
    if (rank == 0) communicator.send(in(mine), 1, 5);
    if (rank == 1) {
      EXPECT_EQ(communicator.recv(out(two), kAnySource, 5).source(), 0);
      EXPECT_EQ(two, (std::vector{0, 1}));
    }
  });
}

TEST(Spans, OfSizesThatDoNotFitAreRefusedBeforeAnythingHappens) {
  expect_ranks(2, [](Communicator& communicator) {
    std::vector<int> three(3), four(4);
    const auto in = [](const std::vector<int>& values) { return std::span<const int>(values); };
    const auto out = [](std::vector<int>& values) { return std::span<int>(values); };
    const auto refused = [&](const std::function<void()>& call) {
      EXPECT_EQ(code_of(call), ErrorCode::kInvalidArgument);
    };
    refused([&] { communicator.all_reduce(in(three), out(four)); });
    refused([&] { communicator.all_gather(in(three), out(four)); });
    refused([&] { communicator.reduce_scatter(in(three), out(four)); });
    refused([&] { communicator.all_to_all(in(three), out(three)); });
    refused([&] { communicator.all_to_all(in(three), out(four)); });
    const int root = communicator.rank();  // each is the root of its own mistake
    refused([&] { communicator.reduce(in(three), out(four), kSum, root); });
    refused([&] { communicator.gather(in(three), out(four), root); });
    refused([&] { communicator.scatter(in(three), out(four), root); });
    expect_sum(communicator);
  });
}

// A store as a launcher has it.
class MapStore {
 public:
  Store store() {
    return {[this](const std::string& key, const std::string& value) {
              const std::lock_guard lock(mutex_);
              values_[key] = value;
              changed_.notify_all();
            },
            [this](const std::string& key) {
              std::unique_lock lock(mutex_);
              changed_.wait(lock, [&] { return values_.contains(key); });
              return values_[key];
            }};
  }
  std::size_t size() const { return values_.size(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// The id of a communicator that there is no more.
std::string stale_id() {
  const UniqueId id = UniqueId::create();
  run_threads(2, [&id](int rank) { Communicator::create(id, rank, 2); });
  return id.to_text();
}

TEST(Communicator, IsMadeThroughAStore) {
  MapStore map;
  const auto ends = run_threads(3, [&map](int rank) {
    Communicator first = Communicator::create(map.store(), "job/first", rank, 3);
    Communicator second = Communicator::create(map.store(), "job/second", rank, 3);
    expect_sum(first, 2);
    expect_sum(second, 3);
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
  EXPECT_EQ(map.size(), 2u);
}

// An earlier run has left its key in the store; rank 1 reads it before rank 0 comes.
TEST(Communicator, IsMadeThroughAStoreWithTheKeyOfAnEarlierRun_F96) {
  MapStore map;
  std::atomic<int> reads{0};
  const auto ends = run_threads(3, [&](int rank) {
    Store store = map.store();
    if (rank == 0) {
      store.set("job/again", stale_id());
      while (reads.load() < 6) std::this_thread::yield();  // both others, and again
    }
    const auto get = store.get;
    store.get = [&reads, get](const std::string& key) {
      ++reads;
      return get(key);
    };
    Communicator communicator = Communicator::create(store, "job/again", rank, 3);
    expect_sum(communicator);
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST(Communicator, SaysWhichKeyIsOutOfDate_F96) {
  MapStore map;
  map.store().set("job/gone", stale_id());
  Options options;
  options.config = {{"TUTTI_MEET_TIMEOUT", "1"}};
  try {
    Communicator::create(map.store(), "job/gone", 1, 2, options);
    FAIL() << "nobody is there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_NE(std::string(error.what()).find("the store's value of \"job/gone\""), std::string::npos) << error.what();
  }
}

// A rank that there is not waits for no store.
TEST(Communicator, ChecksItsRankBeforeItReadsAStore_F96) {
  MapStore map;
  for (const auto& [rank, ranks] : {std::pair{2, 2}, {-1, 2}, {1, 0}}) {
    EXPECT_THROW(Communicator::create(map.store(), "job/never", rank, ranks), Error) << rank << " of " << ranks;
  }
}

TEST(Communicator, ThatWaitsForAStoreSaysForWhat) {
  MapStore map;
  testing::internal::CaptureStderr();
  const auto ends = run_threads(2, [&map](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    Options options{.name = "blue"};
    options.config = {{"TUTTI_STALL_WARNING", "1"}};
    Communicator communicator = Communicator::create(map.store(), "job/late", rank, 2, options);
    expect_sum(communicator);
  });
  const std::string log = testing::internal::GetCapturedStderr();
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
  EXPECT_NE(log.find("communicator \"blue\": rank 1 has waited "), std::string::npos) << log;
  EXPECT_NE(log.find(" s for the store's value of \"job/late\", which rank 0 puts there"), std::string::npos) << log;
}

TEST(Communicator, ThatFailsLeavesALineOnEveryRankByWhoseTimeTheyCanBeComparedIfThatIsWanted) {
  testing::internal::CaptureStderr();
  set_log_level(LogLevel::kInfo);
  expect_ranks(2, [](Communicator& communicator) {
    if (communicator.rank() == 0) communicator.abort("no more data");
    EXPECT_THROW(communicator.barrier(), Error);
  });
  set_log_level(LogLevel::kWarn);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("rank 0 fails: this rank called abort(): no more data"), std::string::npos) << log;
  EXPECT_NE(log.find("rank 1 fails: rank 0 ("), std::string::npos) << log;
}

TEST(Communicator, IsMadeFromSettings) {
  const std::string id = UniqueId::create().to_text();
  const auto ends = run_threads(3, [&id](int rank) {
    Options options;
    options.config = {{"TUTTI_RANK", std::to_string(rank)}, {"TUTTI_NRANKS", "3"}, {"TUTTI_COMM_ID", id}};
    Communicator communicator = Communicator::from_environment(options);
    EXPECT_EQ(communicator.rank(), rank);
    expect_sum(communicator);
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST(Communicator, MovesAndWorksOn) {
  const UniqueId first = UniqueId::create();
  const UniqueId second = UniqueId::create();
  const auto ends = run_threads(2, [&](int rank) {
    Communicator one = Communicator::create(first, rank, 2);
    Communicator two = std::move(one);
    expect_sum(two);
    EXPECT_EQ(code_of([&] { one.barrier(); }), ErrorCode::kInvalidArgument);  // NOLINT: that is what is tested
    one.destroy();                                                            // has nothing to do
    one = Communicator::create(second, rank, 2);
    expect_sum(one);
    two = std::move(one);  // the first one ends here
    expect_sum(two);
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST(Communicator, IsDestroyedTwiceWithoutHarm_F60) {
  expect_ranks(2, [](Communicator& communicator) {
    expect_sum(communicator);
    communicator.destroy();
    communicator.destroy();
    int value = 0;
    EXPECT_EQ(code_of([&] { communicator.all_reduce(&value, &value, 1, DataType::kI32, kSum); }),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { communicator.send(&value, 1, DataType::kI32, 0); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { communicator.recv(&value, 1, DataType::kI32, 0); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(communicator.ranks(), 2);
    EXPECT_EQ(communicator.statistics().collectives.at("all_reduce").calls, 1u);
  });
}

TEST(Communicator, OfOneRankDoesEverythingAlone) {
  for (const RankSetup& setup : {RankSetup{}, over_tcp()}) {
    expect_ranks(
        1,
        [](Communicator& communicator) {
          EXPECT_EQ(communicator.hosts(), 1);
          const std::vector<int> input = iota(5, 70'000);
          std::vector<int> output(input.size());
          const auto in = std::span<const int>(input);
          const auto out = std::span<int>(output);
          const auto calls = std::to_array<std::function<void()>>({
              [&] { communicator.all_reduce(in, out); },
              [&] { communicator.all_gather(in, out); },
              [&] { communicator.reduce_scatter(in, out); },
              [&] { communicator.reduce(in, out, kAvg, 0); },
              [&] { communicator.gather(in, out, 0); },
              [&] { communicator.scatter(in, out, 0); },
              [&] { communicator.all_to_all(in, out); },
              [&] { communicator.broadcast(in.data(), out.data(), in.size(), DataType::kI32, 0); },
              [&] {
                std::thread sender([&] { communicator.send(in, 0); });
                EXPECT_EQ(communicator.recv(out, kAnySource).source(), 0);
                sender.join();
              },
          });
          for (std::size_t i = 0; i < calls.size(); ++i) {
            doing("call " + std::to_string(i));
            std::ranges::fill(output, 0);
            calls[i]();
            EXPECT_EQ(output, input) << "call " << i;
          }
          communicator.barrier();
        },
        setup);
  }
}

TEST(Communicators, OfOneProcessLiveSideBySideAndEndInAnyOrder) {
  std::vector<UniqueId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(UniqueId::create());
  const auto ends = run_threads(3, [&ids](int rank) {
    std::vector<Communicator> communicators;
    for (const UniqueId& id : ids) communicators.push_back(Communicator::create(id, rank, 3));
    for (int i = 0; i < 20; ++i) {
      for (std::size_t c = 0; c < communicators.size(); ++c) expect_sum(communicators[c], static_cast<int>(c) + i);
    }
    doing("destroying, every rank in another order");
    for (std::size_t c = 0; c < communicators.size(); ++c) {
      communicators[(c + static_cast<std::size_t>(rank)) % communicators.size()].destroy();
    }
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

// Two threads a rank, each with a communicator of its own, made at the same time and used without regard to the other.
TEST(Communicators, UsedByThreadsInDifferentOrderDoNotWaitForEachOther_F65) {
  const std::array ids{UniqueId::create(), UniqueId::create()};
  const auto ends = run_threads(6, [&ids](int thread) {
    const int rank = thread / 2;
    const auto which = static_cast<std::size_t>((thread + rank) % 2);
    Communicator communicator = Communicator::create(ids[which], rank, 3);
    std::vector<int> values(5000);
    for (int i = 0; i < 200; ++i) {
      const std::size_t count = (static_cast<std::size_t>(i) * 37 + which) % values.size() + 1;
      std::ranges::fill(values, i);
      communicator.all_reduce(values.data(), values.data(), count, DataType::kI32, kSum);
      ASSERT_EQ(values[count - 1], 3 * i);
    }
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

TEST(Communicators, OfOneThreadAreUsedAlternately) {
  const std::array ids{UniqueId::create(), UniqueId::create()};
  const auto ends = run_threads(2, [&ids](int rank) {
    Communicator first = Communicator::create(ids[0], rank, 2);
    Communicator second = Communicator::create(ids[1], rank, 2, over_tcp().options);
    for (int i = 0; i < 50; ++i) {
      expect_sum(first, i);
      expect_sum(second, -i);
    }
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

}  // namespace
}  // namespace tutti
