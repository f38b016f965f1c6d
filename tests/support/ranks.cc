#include "support/ranks.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace tutti {
namespace {

using std::chrono::seconds;

// What one thread does and how it ended.
struct Activity {
  std::string what = "making the communicator";
  bool ended = false;
};

struct Gang {
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<Activity> activities;
  int left = 0;
};

// The gang and number of the calling thread, for doing().
struct Place {
  Gang* gang = nullptr;
  std::size_t rank = 0;
};
thread_local Place here;

std::string activity() {
  const std::lock_guard lock(here.gang->mutex);
  return here.gang->activities[here.rank].what;
}

RankEnd run_body(const std::function<void(int)>& body, int rank) {
  RankEnd end;
  try {
    body(rank);
    return end;
  } catch (const Error& error) {
    end.error = error;
    end.text = std::string(name(error.code())) + ": " + error.what();
  } catch (const std::exception& error) {
    end.text = error.what();
  }
  end.threw = true;
  end.text += " [while: " + activity() + "]";
  return end;
}

[[noreturn]] void give_up(const Gang& gang, seconds patience) {
  std::fprintf(stderr, "the test hangs: not all ranks have ended after %lld s\n",
               static_cast<long long>(patience.count()));
  for (std::size_t r = 0; r < gang.activities.size(); ++r) {
    const Activity& activity = gang.activities[r];
    std::fprintf(stderr, "  rank %zu: %s%s\n", r, activity.ended ? "ended after " : "", activity.what.c_str());
  }
  std::fflush(nullptr);
  std::abort();  // threads that hang cannot be ended
}

}  // namespace

std::vector<RankEnd> run_threads(int ranks, const std::function<void(int)>& body, seconds patience) {
  Gang gang;
  gang.activities.resize(static_cast<std::size_t>(ranks));
  gang.left = ranks;
  std::vector<RankEnd> ends(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      here = {&gang, r};
      ends[r] = run_body(body, rank);
      const std::lock_guard lock(gang.mutex);
      gang.activities[r].ended = true;
      if (--gang.left == 0) gang.ended.notify_one();
    });
  }
  {
    std::unique_lock lock(gang.mutex);
    if (!gang.ended.wait_for(lock, patience, [&gang] { return gang.left == 0; })) give_up(gang, patience);
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

std::vector<RankEnd> run_ranks(int ranks, const RankBody& body, const RankSetup& setup) {
  const UniqueId id = UniqueId::create();
  const auto run_rank = [&](int rank) {
    Options options = setup.options;
    if (setup.adapt) setup.adapt(rank, options);
    Communicator communicator = Communicator::create(id, rank, ranks, options);
    doing("the test's body");
    body(communicator);
    doing("destroying the communicator");
  };
  return run_threads(ranks, run_rank, setup.patience);
}

void expect_ranks(int ranks, const RankBody& body, const RankSetup& setup) {
  const std::vector<RankEnd> ends = run_ranks(ranks, body, setup);
  for (std::size_t r = 0; r < ends.size(); ++r) {
    EXPECT_FALSE(ends[r].threw) << "rank " << r << " of " << ranks << ": " << ends[r].text;
  }
}

void doing(std::string_view what) {
  if (here.gang == nullptr) return;
  const std::lock_guard lock(here.gang->mutex);
  here.gang->activities[here.rank].what = what;
}

void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      try {
        work(t);
      } catch (...) {
        failures[static_cast<std::size_t>(t)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

RankSetup with_config(const std::map<std::string, std::string>& config) {
  RankSetup setup;
  setup.options.config = config;
  return setup;
}

RankSetup over_tcp() { return with_config({{"TUTTI_SHM_DISABLE", "1"}}); }

RankSetup on_hosts(std::vector<int> host_of) {
  RankSetup setup;
  setup.adapt = [host_of = std::move(host_of)](int rank, Options& options) {
    options.config["TUTTI_HOSTID"] = "host" + std::to_string(host_of[static_cast<std::size_t>(rank)]);
  };
  return setup;
}

}  // namespace tutti
