#include "bootstrap/meeting_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "bootstrap/inherited_variables.h"
#include "bootstrap/waiting_times.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestAnswer(1000);

}  // namespace

struct MeetingWatch::State : std::enable_shared_from_this<State> {
  State(EventLoop& loop, std::string whose, milliseconds limit, std::string from)
      : who(std::move(whose)), origin(std::move(from)), warning(limit), timer(loop), began(Clock::now()) {}

  void wait() {
    if (warning.count() == 0) return;
    timer.arm(began + ask_after(warning, lines), [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->look();
    });
  }

  void look() {
    if (!ask) return say(what);
    asked = true;
    ask();
    timer.arm_after(std::min(kLongestAnswer, warning / 4), [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->say(self->what);
    });
  }

  void take(const std::string& answer) {
    if (asked) say(answer);
  }

  void say(const std::string& why) {
    asked = false;
    const std::chrono::duration<double> waited = Clock::now() - began;
    std::string where_from;
    if (!origin.empty()) {
      const std::string inherited = inherited_variables_hint();
      where_from = fmt::format(" ({}{}{})", origin, inherited.empty() ? "" : "; ", inherited);
    }
    log_warn("{} has waited {:.1f} s {}{}", who, waited.count(), why, where_from);
    ++lines;
    wait();
  }

  const std::string who;
  const std::string origin;
  const milliseconds warning;
  Timer timer;
  const Clock::time_point began;
  std::string what;
  std::function<void()> ask;
  bool asked = false;
  int lines = 0;  // that were written
};

MeetingWatch::MeetingWatch(std::shared_ptr<Process> process, std::string who, milliseconds warning, std::string origin)
    : process_(std::move(process)) {
  process_->loop().call([&] {
    state_ = std::make_shared<State>(process_->loop(), std::move(who), warning, std::move(origin));
    state_->wait();
  });
}

MeetingWatch::~MeetingWatch() {
  if (!process_->is_this()) {
    // The timer is the parent's, as the thread that serves it.
    static_cast<void>(new std::shared_ptr<State>(std::move(state_)));
    return;
  }
  process_->loop().call([this] { state_.reset(); });
}

void MeetingWatch::waits(std::string what) {
  process_->loop().post([state = std::weak_ptr(state_), what = std::move(what)] {
    if (const auto there = state.lock()) there->what = what;
  });
}

void MeetingWatch::ask_through(std::function<void()> ask) {
  process_->loop().post([state = std::weak_ptr(state_), ask = std::move(ask)] {
    if (const auto there = state.lock()) there->ask = ask;
  });
}

std::function<void(std::string)> MeetingWatch::listener() const {
  return [state = std::weak_ptr(state_)](const std::string& answer) {
    if (const auto there = state.lock()) there->take(answer);
  };
}

}  // namespace tutti
