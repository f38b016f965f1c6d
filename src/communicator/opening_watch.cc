#include "communicator/opening_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bootstrap/waiting_times.h"

namespace tutti {

using std::chrono::milliseconds;

OpeningWatch::OpeningWatch(const std::string& name, int rank, int ranks, Health& health, ControlPlane& control,
                           milliseconds warning)
    : process_(Process::get()),
      control_(control),
      name_(name),
      since_(Clock::now()),
      stalls_({name, rank, ranks, health, control, [this] { return activities(); }, [](const std::string&) {}},
              warning) {
  stalls_.start();
  if (warning.count() == 0 || ranks == 1) return;
  process_->loop().call([this] {
    timer_ = std::make_unique<Timer>(process_->loop());
    look();
  });
}

void OpeningWatch::enters(const std::string& step, bool waits) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  waits_ = waits;
}

void OpeningWatch::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  process_->loop().call([this] { timer_.reset(); });
  process_.reset();
}

void OpeningWatch::look() {
  const Clock::time_point now = Clock::now();
  stalls_.look(stall_, now);
  timer_->arm(std::max(stall_.next, now), [this] { look(); });
}

// All steps are one call, the first: whoever is in none of the others' way says for whom it waits.
std::vector<Activity> OpeningWatch::activities() const {
  const int waits_for = control_.waits_for();
  const std::lock_guard lock(mutex_);
  if (over_) return {};
  Activity activity;
  const auto since = std::chrono::duration_cast<milliseconds>(Clock::now() - since_);
  activity.since_ms = static_cast<std::uint32_t>(since.count());
  if (waits_for >= 0 || waits_) {
    activity.kind = Activity::Kind::kCollective;
    activity.waits_for = waits_for;
    activity.text = "the set-up";
  } else {
    activity.elsewhere = fmt::format("the set-up of \"{}\": it {}", name_, step_);
  }
  return {activity};
}

}  // namespace tutti
