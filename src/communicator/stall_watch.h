#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/sync.h"
#include "communicator/communicator_report.h"
#include "communicator/self.h"

namespace tutti {

// How long one operation has not got on. Belongs to it; touched by whoever carries it on.
struct Stall {
  Clock::time_point since{};
  Clock::time_point next{};  // when to look again
  int lines = 0;             // that were written since

  void ended() { since = {}; }
};

// Finds out for a communicator who keeps its calls waiting: asks all ranks over the control plane and says it in one
// line on every rank that waits; or, when a call has run into its limit, makes that line the reason why the
// communicator fails. Owned by the CallContext. Nothing here blocks; look(), time_out() and forget() may be called by
// any thread, and only after a wait.
class StallWatch {
 public:
  // Within this time of a question its report is there, or will not come.
  static constexpr std::chrono::milliseconds kAnswerTime{1500};

  // Whose waits these are.
  struct Of {
    std::string name;  // of the communicator
    int rank = 0;
    int ranks = 1;
    Health& health;
    ControlPlane& control;
    std::function<std::vector<Activity>()> activities;  // what this rank does; on the control thread
    std::function<void(const std::string& text)>
        note;  // what was found out, also by other ranks; on the control thread
  };
  // warning: how long a call waits before a line says so; 0: no lines.
  StallWatch(Of of, std::chrono::milliseconds warning) : self_(std::move(of)), warning_(warning) {}
  // Of the calls of a communicator.
  StallWatch(const Self& self, CommunicatorReport& report, std::chrono::milliseconds warning);

  // The other ranks can ask from now on, until this one has left the control plane.
  void start();

  // An operation waits.
  void look(Stall& stall, Clock::time_point now);

  // An operation has run into its limit: asks; then the communicator fails, unless it was forgotten before the answer.
  // Does nothing while that goes on, and asks again when no answer comes. `call` names it for messages, on this rank.
  void time_out(const void* operation, const std::string& call, std::chrono::milliseconds limit);
  void forget(const void* operation);

 private:
  struct Late {
    const void* operation;
    std::string call;
    std::chrono::milliseconds limit;
  };

  void ask();
  // On the control thread.
  bool may_ask();
  bool another_asks(int below) const;
  void conclude(const Survey& survey);
  void take_report(const std::string& text, int blamed);
  bool fail_late(const std::string& why, int blamed);
  bool said_already(int blamed);
  void keep(const std::string& text);
  // What this rank has waited in for longest; null: it does not wait.
  static const Activity* longest(const std::vector<Activity>& activities, std::chrono::milliseconds at_least);

  const Of self_;
  const std::chrono::milliseconds warning_;
  Word asking_{0};       // a question is to be asked
  Word last_asked_{0};   // nanoseconds; noted by the control thread, as the next
  Word last_report_{0};  // of any rank

  // Of the control thread: the last question of another rank that has not made a report of it.
  int other_asker_ = -1;
  Clock::time_point other_asked_{};
  // And the last line.
  int said_blamed_ = -1;
  Clock::time_point said_at_{};

  std::mutex mutex_;        // guards the next
  std::vector<Late> late_;  // in the order in which they ran into their limits
};

}  // namespace tutti
