#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "tutti/group.h"
#include "tutti/stream.h"
#include "tutti/work.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

// Expects an error with this code and these words.
void expect_error(ErrorCode code, const std::vector<std::string>& words, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << " in: " << error.what();
    }
  }
}

void expect_refused(const std::vector<std::string>& words, const std::function<void()>& call) {
  expect_error(ErrorCode::kInvalidArgument, words, call);
}

TEST(Durations, ThatAreNegativeAreRefused_B8) {
  const milliseconds negative(-5);
  Options options;
  options.timeout = negative;
  const auto make = [&] { Communicator::create(UniqueId::create(), 0, 1, options); };
  expect_refused({"Options::timeout", "-5 ms"}, make);
  expect_refused({"Options::timeout", "-5 ms"}, [&] { Communicator::from_environment(options); });
  expect_refused({"Options::timeout", "-5 ms"}, [&] {
    Group group;
    make();
  });
  HostStream stream;
  expect_refused({"Stream::within()", "-5 ms"}, [&] { static_cast<void>(Stream().within(negative)); });
  expect_refused({"Stream::within()", "negative"}, [&] { static_cast<void>(stream.within(milliseconds::min())); });
  expect_ranks(1, [&](Communicator& communicator) {
    expect_refused({"Work::wait()", "-5 ms"}, [&] { communicator.barrier().wait(negative); });
    const Work work = communicator.barrier(stream);
    expect_refused({"Work::wait()", "-5 ms"}, [&] { work.wait(negative); });
    work.wait();
    expect_refused({"shrink()", "-5 ms"}, [&] { communicator.shrink(negative); });
    expect_refused({"Options::timeout", "-5 ms"}, [&] { communicator.split(0, 0, options); });
    communicator.barrier();
  });
}

// All are told, and the communicator that was split stays usable.
TEST(Durations, ThatAreNegativeFailTheSplitOnAllRanks_B8) {
  expect_ranks(3, [&](Communicator& communicator) {
    Options options;
    if (communicator.rank() == 1) options.timeout = milliseconds(-1);
    try {
      communicator.split(0, 0, options);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("Options::timeout"), std::string::npos) << error.what();
    }
    communicator.barrier();
  });
}

TEST(Durations, OfARankThatAreNegativeAreToldToTheOthers_B8) {
  const UniqueId id = UniqueId::create();
  const auto ends = run_threads(2, [&](int rank) {
    Options options;
    if (rank == 1) options.timeout = milliseconds(-1);
    Communicator::create(id, rank, 2, options);
  });
  for (const RankEnd& end : ends) {
    EXPECT_NE(end.text.find("Options::timeout"), std::string::npos) << end.text;
  }
}

// Rank 1 comes when rank 0 has been there for longer than a moment.
TEST(MeetTimeout, OfZeroIsNoLimit_B8) {
  const UniqueId id = UniqueId::create();
  Options options;
  options.config["TUTTI_MEET_TIMEOUT"] = "0";
  std::atomic<bool> begins{false};
  const auto ends = run_threads(2, [&](int rank) {
    while (rank == 1 && !begins) std::this_thread::yield();
    if (rank == 1) std::this_thread::sleep_for(milliseconds(30));
    begins = true;
    Communicator communicator = Communicator::create(id, rank, 2, options);
    communicator.barrier();
    const auto part = communicator.split(0, 0, options);
    ASSERT_TRUE(part);
  });
  for (const RankEnd& end : ends) EXPECT_FALSE(end.threw) << end.text;
}

// Also where rank 0, which knows the root, has not come at all.
TEST(Names, StandInTheTimeoutOfAUniqueId_B8) {
  for (const bool without_rank_0 : {false, true}) {
    const UniqueId id = UniqueId::create();
    const auto ends = run_threads(2, [&](int rank) {
      Options options;
      options.name = "bob";
      options.config["TUTTI_MEET_TIMEOUT"] = "0.2";
      Communicator::create(id, without_rank_0 ? rank + 1 : rank, 4, options);
    });
    for (const RankEnd& end : ends) {
      ASSERT_TRUE(end.error) << end.text;
      EXPECT_EQ(end.error->code(), ErrorCode::kTimeout) << end.text;
      EXPECT_NE(end.text.find("communicator \"bob\""), std::string::npos) << end.text;
    }
  }
}

TEST(Stores, WithoutFunctionsAreRefused_B2) {
  Store store;
  expect_refused({"no function `set`", "rank 0"}, [&] { Communicator::create(store, "key", 0, 1); });
  expect_refused({"no function `get`", "rank 1"}, [&] { Communicator::create(store, "key", 1, 2); });
  expect_refused({"no function `set`"}, [&] {
    Group group;
    Communicator::create(store, "key", 0, 1);
  });
  // Each rank needs one.
  store.set = [](const std::string&, const std::string&) {};
  Communicator::create(store, "key", 0, 1).barrier();
}

TEST(Stores, ThatThrowAreErrors_B2) {
  Store store;
  store.set = [](const std::string&, const std::string&) { throw std::runtime_error("no quorum"); };
  store.get = [](const std::string&) -> std::string { throw 1; };
  expect_error(ErrorCode::kCallback, {"set", "\"key\"", "no quorum"},
               [&] { Communicator::create(store, "key", 0, 2); });
  expect_error(ErrorCode::kCallback, {"get", "\"key\""}, [&] { Communicator::create(store, "key", 1, 2); });
  expect_error(ErrorCode::kCallback, {"no quorum"}, [&] {
    Group group;
    const Communicator made = Communicator::create(store, "key", 0, 2);
    group.end();
  });
  store.get = [](const std::string&) -> std::string { throw Error(ErrorCode::kTimeout, "too late"); };
  expect_error(ErrorCode::kTimeout, {"too late"}, [&] { Communicator::create(store, "key", 1, 2); });
}

}  // namespace
}  // namespace tutti
