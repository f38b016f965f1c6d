#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/faulty_world.h"
#include "executor/guarded_call.h"

namespace tutti {

// A few calls, one after the other, on all ranks: a rank goes on to its next call as soon as one has ended.
class Series {
 public:
  Series(World& world, std::vector<CallSetup> setups, std::uint64_t first_sequence = 1)
      : world_(world), setups_(std::move(setups)), parts_(static_cast<std::size_t>(world.ranks())) {
    for (int r = 0; r < world.ranks(); ++r) {
      std::uint64_t sequence = first_sequence;
      for (const CallSetup& setup : setups_) {
        parts_[static_cast<std::size_t>(r)].push_back(std::make_unique<GuardedCall>(world, r, setup, sequence++));
      }
    }
    for (int r = 0; r < world.ranks(); ++r) tasks_.push_back(task(r));
  }

  void run(std::uint64_t seed, bool done_ranks_leave = false) { end(world_.run(tasks_, seed, done_ranks_leave)); }
  // Or by somebody else: one task a rank.
  const std::vector<Task>& tasks() const { return tasks_; }
  void end(std::vector<Ending> endings) {
    endings_ = std::move(endings);
    // What is still on its way comes, or not.
    for (int turn = 0; turn < 1000; ++turn) world_.poll(turn % world_.ranks());
  }

  // What must hold whatever broke; "" when it does.
  std::string problem() {
    if (!problem_.empty()) return problem_;
    for (int r = 0; r < world_.ranks(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      if (std::string wrong = wrong_ending(world_, r, endings_[at]); !wrong.empty()) return wrong;
      for (std::size_t i = 0; i < ended_[at] && !world_.faults().killed(r); ++i) {
        if (std::string wrong = parts_[at][i]->problem_since(); !wrong.empty()) return wrong;
      }
    }
    return "";
  }

 private:
  Task task(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    ended_.push_back(0);
    return {rank,
            [this, rank, at, started = std::size_t{0}]() mutable -> Task::Turn {
              GuardedCall& part = *parts_[at][ended_[at]];
              if (started == ended_[at]) {
                part.start();
                ++started;
              }
              const Progress progress = world_.executor(rank).progress(part.call());
              const bool moved = world_.executor(rank).advanced();
              if (progress != Progress::kDone) return {progress, moved};
              if (problem_.empty()) problem_ = part.problem();
              part.reuse_buffers();
              return {++ended_[at] == parts_[at].size() ? Progress::kDone : Progress::kAgain, true};
            },
            [this, rank, at] {
              world_.executor(rank).withdraw();
              parts_[at][ended_[at]++]->abandon();
            }};
  }

  World& world_;
  std::vector<CallSetup> setups_;
  std::vector<std::vector<std::unique_ptr<GuardedCall>>> parts_;  // [rank][call]
  std::vector<std::size_t> ended_;                                // by rank
  std::vector<Task> tasks_;
  std::vector<Ending> endings_;
  std::string problem_;
};

}  // namespace tutti
