#include "bootstrap/roll_call.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDelay(1000);
// A rank that leaves may close its listener a moment before its goodbye has come round.
constexpr milliseconds kCertain(1000);
constexpr int kAtOnce = 16;

}  // namespace

RollCall::RollCall(EventLoop& loop, Self self) : loop_(loop), self_(std::move(self)), next_(loop) {}

RollCall::~RollCall() { cancel(); }

void RollCall::cancel() {
  next_.cancel();
  for (auto& [rank, trial] : trials_) {
    if (trial.dialer) trial.dialer->cancel();
  }
  trials_.clear();
  waiting_.clear();
  dialing_ = 0;
}

void RollCall::begin_soon() {
  next_.arm_after(kDelay, [this] { begin(); });
}

void RollCall::begin() {
  std::erase_if(trials_, [&](auto& entry) {
    if (self_.is_missing(entry.first)) return false;
    if (entry.second.dialer) {
      entry.second.dialer->cancel();
      --dialing_;
    }
    return true;
  });
  const std::vector<int> missing = self_.missing();
  waiting_.assign(missing.begin(), missing.end());
  dial_next();
}

void RollCall::dial_next() {
  while (dialing_ < kAtOnce && !waiting_.empty()) {
    const int rank = waiting_.front();
    waiting_.pop_front();
    Trial& trial = trials_.try_emplace(rank, Trial{nullptr, Clock::now(), false}).first->second;
    if (trial.dialer) continue;
    ++dialing_;
    trial.dialer = self_.dial(rank, [this, rank](Dialer::Outcome outcome) {
      const std::shared_ptr<Dialer> over = std::move(trials_.at(rank).dialer);
      --dialing_;
      note(rank, outcome);
      dial_next();
    });
  }
  // All have answered or not: those that have not are asked again.
  if (dialing_ == 0 && !trials_.empty()) begin_soon();
}

void RollCall::note(int rank, const Dialer::Outcome& outcome) {
  if (outcome.socket || outcome.alive) {
    trials_.erase(rank);
    return;
  }
  const Clock::time_point now = Clock::now();
  const auto [trial, added] = trials_.try_emplace(rank, Trial{nullptr, now, false});
  if (outcome.gone && !std::exchange(trial->second.gone, true)) trial->second.since = now;
  const auto waited = now - trial->second.since;
  if (outcome.gone ? waited < kCertain : waited < self_.silence) return;
  const std::string trouble = outcome.all_refused ? "nobody listens there any more"
                              : outcome.gone      ? "another program has its port now"
                                                  : "it does not answer";
  trials_.erase(trial);
  self_.on_dead(rank, trouble);
}

}  // namespace tutti
