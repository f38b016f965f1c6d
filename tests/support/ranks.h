#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/communicator.h"

namespace tutti {

// How ranks are set up beyond their number.
struct RankSetup {
  Options options;                                        // of all ranks
  std::function<void(int rank, Options& options)> adapt;  // what one rank has otherwise
  std::chrono::seconds patience{120};
};

// How a rank's body ended.
struct RankEnd {
  bool threw = false;
  std::optional<Error> error;  // what it threw, if it was a tutti::Error
  std::string text;            // what it threw
};

using RankBody = std::function<void(Communicator&)>;

// Runs `body` once for every rank of a new communicator, each in a thread of its own, and returns how each ended. The
// communicator of a body that throws is destroyed by the unwinding. When not all have ended after `patience`, the
// process ends with what every rank was doing.
std::vector<RankEnd> run_ranks(int ranks, const RankBody& body, const RankSetup& setup = {});
// The same for threads that make their communicators themselves.
std::vector<RankEnd> run_threads(int ranks, const std::function<void(int rank)>& body,
                                 std::chrono::seconds patience = std::chrono::seconds(120));

// The same for bodies that must not throw: whatever one throws is a test failure that names the rank.
void expect_ranks(int ranks, const RankBody& body, const RankSetup& setup = {});

// Says what the calling rank does from now on; for the message when it hangs or throws.
void doing(std::string_view what);

// Runs `work` in `count` threads of the calling rank and waits for them; throws what the first of them threw.
void in_threads(int count, const std::function<void(int thread)>& work);

// Shorthands for setups.
RankSetup with_config(const std::map<std::string, std::string>& config);
RankSetup over_tcp();                          // no rank shares memory with another
RankSetup on_hosts(std::vector<int> host_of);  // ranks of one number share memory

}  // namespace tutti
