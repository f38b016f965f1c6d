#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "reduce/store_kind.h"

namespace tutti {

// Decides how a rank writes into the outputs of its peers, for calls of one size. Ordinary stores are fastest where the
// lines belong to nobody; where each must first be taken back from the core that holds it they are several times slower
// than streaming stores. Which it is depends on the distance and on what the peer's caches still hold. The first guess
// comes from both; after that the writer looks at what its own writing costs, and tries the other kind when that seems
// worth it.
//
// Belongs to whoever executes the channel; one thread at a time. Arithmetic only: whoever writes brings the clock.
class StoreChoice {
 public:
  // Writing less takes too short to be measured.
  static constexpr std::size_t kShortestMeasured = 16 * 1024;
  // Faster than so many bytes a nanosecond, ordinary stores have not lost their lines to anybody.
  static constexpr double kUnhindered = 12;
  // Between two writes that are timed, once it has been decided: a clock takes no part of so long a write that counts.
  static constexpr std::size_t kMostUntimed = 128 * 1024;
  // A trial of the other kind lasts so many bytes, and the next one comes after so many.
  static constexpr std::size_t kTrialBytes = 512 * 1024;
  static constexpr std::size_t kBetweenTrials = std::size_t{64} << 20;

  explicit StoreChoice(StoreKind guess = StoreKind::kOrdinary) : kind_(guess) {}

  // Whether the next write, of so many bytes, is to be timed, for note(). Once it has been decided how to write, and a
  // clock takes a good part of what the write does, only one of several is. Call it once for each.
  bool wants_time(std::size_t bytes) {
    if (bytes < kShortestMeasured) return false;
    if (trial_left_ > 0 || since_trial_ < kTrialBytes) return true;
    untimed_ += bytes;
    if (untimed_ >= kMostUntimed) return true;
    since_trial_ += bytes;
    return false;
  }

  // For the next write.
  StoreKind kind() const { return trial_left_ > 0 ? other(kind_) : kind_; }

  // kind() has written so many bytes in this time.
  void note(std::size_t bytes, double ns) {
    if (bytes < kShortestMeasured) return;
    untimed_ = 0;
    const double now = ns / static_cast<double>(bytes);
    double& cost = cost_[index(kind())];
    if (cost == 0 || (!tried_ && trial_left_ == 0 && since_trial_ < kTrialBytes)) {
      // The very first writes fault pages in and find nothing in any cache: the least of them counts.
      cost = cost == 0 ? now : std::min(cost, now);
    } else {
      // A thread that was held up says little.
      cost += (std::min(now, kOutlier * cost) - cost) / kMemory;
    }
    if (trial_left_ > 0) {
      cheapest_ = std::min(cheapest_, now);
      trial_left_ -= std::min(trial_left_, bytes);
      if (trial_left_ == 0) judge();
      return;
    }
    since_trial_ += bytes;
    const bool hindered = kind_ == StoreKind::kStreaming || cost * kUnhindered > 1;
    const std::size_t patience = tried_ ? kBetweenTrials : kTrialBytes;
    if (hindered && since_trial_ >= patience) start_trial();
    // What was worth it at the last trial may be no more.
    if (tried_ && cost > kWorse * judged_cost_ && since_trial_ >= kTrialBytes) start_trial();
  }

 private:
  static constexpr double kMemory = 4;   // measurements that an average reaches back
  static constexpr double kOutlier = 4;  // a measurement counts at most so many times the average
  static constexpr double kWorse = 2;

  static constexpr StoreKind other(StoreKind kind) {
    return kind == StoreKind::kOrdinary ? StoreKind::kStreaming : StoreKind::kOrdinary;
  }
  static constexpr std::size_t index(StoreKind kind) { return kind == StoreKind::kOrdinary ? 0 : 1; }

  void start_trial() {
    cost_[index(other(kind_))] = 0;
    cheapest_ = std::numeric_limits<double>::max();
    trial_left_ = kTrialBytes;
  }
  void judge() {
    tried_ = true;
    since_trial_ = 0;
    double& tried = cost_[index(other(kind_))];
    tried = std::min(tried, kWorse * cheapest_);
    const double ordinary = cost_[index(StoreKind::kOrdinary)];
    const double streaming = cost_[index(StoreKind::kStreaming)];
    kind_ = streaming < ordinary ? StoreKind::kStreaming : StoreKind::kOrdinary;
    judged_cost_ = cost_[index(kind_)];
  }

  StoreKind kind_;
  std::array<double, 2> cost_{};  // nanoseconds a byte; 0: not known
  double judged_cost_ = 0;        // of kind_, when it was chosen
  double cheapest_ = 0;           // measurement of the trial
  std::size_t trial_left_ = 0;    // bytes
  std::size_t since_trial_ = 0;
  std::size_t untimed_ = 0;  // bytes since the last write that was timed
  bool tried_ = false;
};

}  // namespace tutti
