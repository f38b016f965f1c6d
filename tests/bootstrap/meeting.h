#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/control_plane.h"
#include "bootstrap/process.h"
#include "bootstrap/sockets.h"

namespace tutti {

// One rank of a test: its health, its control plane once it has met the others, or why it could not.
struct TestRank {
  explicit TestRank(int ranks) : health(ranks) {}
  Health health;
  std::unique_ptr<ControlPlane> plane;
  std::unique_ptr<Error> error;
};
using TestRanks = std::vector<std::unique_ptr<TestRank>>;

using Settings = std::map<std::string, std::string>;

inline Config test_config(const Settings& settings = {}) {
  Settings all = {{"TUTTI_MEET_TIMEOUT", "20"}};
  for (const auto& [name, value] : settings) all[name] = value;
  return Config::from_environment().with(all);
}

inline void meet(TestRank& rank, const Membership& membership, const Settings& settings = {}) {
  try {
    rank.plane = ControlPlane::meet(membership, test_config(settings), rank.health);
  } catch (const Error& error) {
    rank.error = std::make_unique<Error>(error);
  }
}

// Runs `work(rank)` in a thread for each rank.
inline void in_threads(int ranks, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&work, rank] { work(rank); });
  for (std::thread& thread : threads) thread.join();
}

inline TestRanks make_ranks(int ranks) {
  TestRanks made;
  for (int rank = 0; rank < ranks; ++rank) made.push_back(std::make_unique<TestRank>(ranks));
  return made;
}

// All ranks of a communicator, met as threads of this process. `change` may alter what a rank is told.
inline TestRanks meet_all(int ranks, const std::function<void(int, Membership&, Settings&)>& change = {}) {
  // A failed root stays for late ranks only while somebody needs the control thread, as other processes would.
  const std::shared_ptr<Process> process = Process::get();
  const UniqueId id = UniqueId::create();
  TestRanks made = make_ranks(ranks);
  in_threads(ranks, [&](int rank) {
    Membership membership = membership_from_id(id, rank, ranks);
    Settings settings;
    if (change) change(rank, membership, settings);
    meet(*made[static_cast<std::size_t>(rank)], membership, settings);
  });
  return made;
}

// A port that nobody listens on at the moment.
inline int free_port() { return local_address(listen_on(SocketAddress::loopback(Family::kIpv4, 0)).get()).port(); }

// For a meeting at "host:port" that rank 0 opens, with a secret that all know.
inline Membership membership_at(const std::string& place, int rank, int ranks, const std::string& secret = "hush") {
  Membership membership;
  membership.rank = rank;
  membership.ranks = ranks;
  membership.roots = {HostPort::parse(place)};
  membership.secret = Key::from_text(secret);
  return membership;
}

inline void expect_all_met(const TestRanks& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_EQ(ranks[rank]->error, nullptr) << "rank " << rank << ": " << ranks[rank]->error->what();
    ASSERT_NE(ranks[rank]->plane, nullptr) << rank;
  }
}

// Waits for something that other threads bring about; the test fails when it does not come.
inline void wait_for(const std::function<bool()>& condition, const std::string& what) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_TRUE(condition()) << what;
}

inline void leave_all(TestRanks& ranks) {
  in_threads(static_cast<int>(ranks.size()), [&](int rank) {
    TestRank& mine = *ranks[static_cast<std::size_t>(rank)];
    if (mine.plane) mine.plane->leave(0);
  });
}

}  // namespace tutti
