#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "doctor/report.h"

namespace tutti::doctor {

// A rank of one of the communicators of a job.
struct Member {
  std::size_t communicator = 0;
  int rank = 0;
  auto operator<=>(const Member&) const = default;
};

// The reports of all communicators of a job, and which of them one process has written. A process that does not come
// to a call of one communicator may wait in another. The reports outlive it.
class Job {
 public:
  explicit Job(const std::vector<std::vector<Report>>& communicators);

  const Report* report(Member member) const;
  // Whether its process is no other rank of the communicator, as far as files tell.
  bool is_alone(Member member) const;
  // What else the process of this rank is, in files written at about the same time. Where it is several ranks of a
  // communicator, nobody knows which of its threads does what: those are left out, and from them nothing is found.
  std::vector<Member> same_process(Member member) const;

 private:
  using ProcessName = std::tuple<std::string, std::uint64_t, long>;  // host, namespace of its pid, pid
  static ProcessName process_of(const Report& report) { return {report.host, report.pid_namespace, report.pid}; }

  std::map<Member, const Report*> reports_;
  std::map<ProcessName, std::vector<Member>> processes_;  // in order
};

// The collective that a rank carries on; the first, where several are queued. Null: none.
const Operation* current_call(const Report& report);
// What it has waited in for longest of all that has not ended. Null: it is in no call.
const Operation* longest_pending(const Report& report);
// "barrier #5", "send f32×9 to 1 tag 0".
std::string named(const Operation& operation);

}  // namespace tutti::doctor
