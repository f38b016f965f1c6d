#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "communicator/communicator_report.h"
#include "communicator/outstanding.h"
#include "communicator/self.h"
#include "communicator/stall_watch.h"
#include "transport/shm/sleepers.h"
#include "transport/transport.h"
#include "tutti/error.h"

namespace tutti {

// What every call of a communicator needs, collective or not: who it is on, whether it still works, what moves its
// messages. Owned by the Session, outlives its calls; any thread.
class CallContext {
 public:
  struct Parts {
    Self self;
    CommunicatorReport& report;
    std::span<Transport* const> transports;
    Sleepers& sleepers;
    bool spin = true;  // there is a core for every rank of the host
    std::chrono::milliseconds timeout{0};
    std::chrono::milliseconds stall_warning{0};  // 0: none
    bool check_memory = false;                   // of every call, with the kernel's help
    std::chrono::milliseconds silence{30'000};   // after which a rank of which nothing is heard counts as gone
  };
  explicit CallContext(Parts parts)
      : parts_(std::move(parts)),
        sleepers_(&parts_.sleepers),
        stalls_(parts_.self, parts_.report, parts_.stall_warning) {}
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  const std::string& name() const { return parts_.self.name; }
  int rank() const { return parts_.self.rank; }
  int ranks() const { return parts_.self.ranks; }
  Health& health() const { return parts_.self.health; }
  ControlPlane& control() const { return parts_.self.control; }
  OperationLog& log() const { return parts_.self.log; }
  CommunicatorReport& report() const { return parts_.report; }
  std::span<Transport* const> transports() const { return parts_.transports; }
  Sleepers& sleepers() const { return parts_.sleepers; }
  bool spin() const { return parts_.spin; }
  bool checks_memory() const { return parts_.check_memory; }
  std::chrono::milliseconds silence() const { return parts_.silence; }
  // Where a thread sleeps that waits for this communicator alone: with those who publish for it knowing.
  std::span<Sleepers* const> places_to_sleep() const { return std::span(&sleepers_, 1); }
  std::chrono::milliseconds timeout() const { return parts_.timeout; }              // 0: none
  std::chrono::milliseconds stall_warning() const { return parts_.stall_warning; }  // 0: none
  OutstandingCalls& outstanding() { return outstanding_; }
  StallWatch& stalls() const { return stalls_; }

  // Whether destroy() has been called.
  bool closed() const { return peek(closed_) != 0; }
  void close() {
    publish(closed_, 1);  // observed through the turn, or by whoever calls where calling is an error
    sleepers().tell_own();
  }
  // What calls end with then. `call`: "send", "all_reduce" …
  Error closed_error(std::string_view call) const;
  // Throws that error then, and in a forked child.
  void check_usable(std::string_view call);

  // Some call of this rank has been given the reason why the communicator failed.
  bool told() const { return peek(told_) != 0; }
  // The reason as the error of one call, which describes itself. REQUIRES: health().failed().
  Error failure_of(const std::string& call);

  // Moves what can be moved without waiting. Returns whether anything moved.
  bool progress_transports() const;
  bool flush_transports() const;

  // Something that this rank needs is not to be had: nobody can go on.
  void fail_locally(const Error& error) const;
  static Error out_of_memory();
  // Ends every call of this communicator on all ranks. Waits for nobody.
  void abort(const std::string& reason) const;

 private:
  Parts parts_;
  Sleepers* const sleepers_;
  OutstandingCalls outstanding_;
  mutable StallWatch stalls_;
  Word closed_{0};
  Word told_{0};
};

}  // namespace tutti
