#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "process/job.h"
#include "support/namespaces.h"

namespace tutti {

// One trial of the soak: ranks at work together, to one of which something happens. Everything of it follows from its
// seed, but for the moment to which a time leads.
struct Trial {
  enum class Way { kShm, kTcp, kMixed, kHosts };
  enum class Fault { kKill, kStop, kExit, kThrow, kAbort };
  enum class Moment { kMeeting, kConnecting, kFirstUse, kMiddle, kLeaving };

  std::uint64_t seed = 0;
  int ranks = 2;
  Way way = Way::kShm;
  Fault fault = Fault::kKill;
  Moment moment = Moment::kMiddle;
  int victim = 0;
  int step = 0;                      // of the workload, at which a rank does it to itself
  std::chrono::microseconds time{};  // after the moment has come, until it happens

  static Trial of_seed(std::uint64_t seed);
  const char* way_name() const;
  const char* fault_name() const;
  const char* moment_name() const;
  std::string text() const;
  // Whether all ranks have a communicator by then, and so all survivors can go on as a new one.
  bool shrinks() const { return moment == Moment::kMiddle; }
  bool by_itself() const { return fault != Fault::kKill && fault != Fault::kStop; }
};

// What became of a trial.
struct Outcome {
  std::string problem;     // "": none
  long long told_ms = -1;  // from the fault until the slowest survivor was told; -1: nobody had to be told
  std::string transcript;  // of all ranks, when there is a problem
};

// Where the ranks of trials run: networks, memory and host names of their own. For one thread.
class SoakPlace {
 public:
  SoakPlace();

  Outcome run(const Trial& trial);

  static constexpr int kSilenceSeconds = 2;
  static constexpr int kMeetSeconds = 4;

 private:
  std::vector<std::unique_ptr<ChildProcess>> start(const Trial& trial) const;
  // What ranks that have ended left behind; "" for nothing.
  std::string left_behind() const;

  Namespace alone_;
  HostNetwork hosts_;
};

}  // namespace tutti
