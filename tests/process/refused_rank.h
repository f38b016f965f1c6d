#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "process/refused_calls.h"
#include "support/namespaces.h"

namespace tutti {

// What a rank of a test tells about its communicator, and about its process before and afterwards.
struct RankTale {
  bool told = false;     // false: the process ended without a word
  int signal = 0;        // that ended it
  bool created = false;  // and used, with right results
  bool wrong = false;    // an exception that is no Error, or a wrong result
  int code = -1;
  int peer = -1;
  double ended_at = 0;  // seconds, on a clock of all processes
  bool refused = false;
  bool same_signals = true;
  int more_descriptors = 0;
  int more_threads = 0;
  char text[700] = {};
  std::array<int, 512> counts{};  // system calls, by number
};

// What one rank is refused; what it makes its communicator of.
struct RankPlan {
  int rank = 0;
  Refusal refusal = {};
  int allocation = 0;  // this one fails, counted from 1; 0: none
  std::function<void(int rank)> prepare = {};
};

// Runs ranks as processes forked from the test, inside `place`; `refused` has its plan.
std::vector<RankTale> run_ranks_with(const Namespace& place, int ranks, const RankPlan& refused);

// "rank 1: created; rank 0: system error: …"
std::string to_text(const std::vector<RankTale>& tales);

}  // namespace tutti
