#include "process/soak_trial.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>

namespace tutti {
namespace {

using Way = Trial::Way;
using Fault = Trial::Fault;
using Moment = Trial::Moment;

constexpr long long kGenerousMs = 20'000;  // beyond what was promised, on a machine that does other things too
constexpr int kForEver = 1'000'000;
constexpr int kFewSteps = 12;

constexpr const char* kWays[] = {"shm", "tcp", "mixed", "hosts"};
constexpr const char* kFaults[] = {"kill", "stop", "exit", "throw", "abort"};
constexpr const char* kMoments[] = {"meeting", "connecting", "first use", "middle", "leaving"};

// The number behind a name in a line such as "fault at=12".
long long number_in(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  return at == std::string::npos ? -1 : std::stoll("0" + text.substr(at + name.size()));
}

// Lets a thing happen, and says when it did; -1 when it could not any more.
long long strike(const Trial& trial, std::vector<std::unique_ptr<ChildProcess>>& ranks) {
  ChildProcess& victim = *ranks[static_cast<std::size_t>(trial.victim)];
  const auto wait = [&](const char* line, bool for_all) {
    for (auto& rank : ranks) {
      if ((for_all || rank.get() == &victim) && !rank->wait_for_line(line, kPatience)) return false;
    }
    return true;
  };
  if (trial.by_itself()) {
    if (!wait("fault at=", false)) return -1;
    return number_in(victim.text(), "fault at=");
  }
  if (trial.moment == Moment::kFirstUse && !wait("joined", false)) return -1;
  if (trial.moment == Moment::kMiddle && !wait("busy", true)) return -1;
  if (trial.moment == Moment::kLeaving && !wait("leaving", false)) return -1;
  std::this_thread::sleep_for(trial.time);
  const long long now = now_ms();
  victim.send(trial.fault == Fault::kKill ? SIGKILL : SIGSTOP);
  return now;
}

bool names(const std::string& message, const ChildProcess& victim, int number) {
  const std::string rank = std::to_string(number);
  return contains(message, "pid " + std::to_string(victim.pid())) || contains(message, "rank " + rank) ||
         contains(message, "ranks " + rank);
}

// Whether this is what a rank may be told whose communicator was still being made: the victim may have been the one
// with whom all met, or another may have given up first because of it.
bool told_while_meeting(const Trial& trial, const ToldError& told, const ChildProcess& victim) {
  if (told.code != "remote failure" && told.code != "timeout") return false;
  return names(told.message, victim, trial.victim) || contains(told.message, "root") ||
         contains(told.message, "ended while the ranks were meeting");
}

// What is wrong with how a survivor ended; "" for nothing. told_ms: how long after the fault it was told, if it was.
std::string judge(const Trial& trial, ChildProcess& survivor, const ChildProcess& victim, long long since,
                  long long& told_ms) {
  const std::string text = survivor.text();
  if (contains(text, "\nwrong: ") || text.starts_with("wrong: ")) return "a wrong result";
  const std::string before = survivor.line("before ");
  if (before != survivor.line("after ")) return "it had " + before + " and has " + survivor.line("after ");
  if (survivor.code() == 0) return trial.moment == Moment::kLeaving ? "" : "it ended as if nothing had happened";
  if (survivor.code() != 3) return "it ended with status " + std::to_string(survivor.code());
  const ToldError told = told_error(survivor);
  told_ms = std::max(0LL, told.at_ms - since);
  const std::string pid = "pid " + std::to_string(victim.pid());
  const bool joined = contains("\n" + text, "\njoined\n");
  const bool meeting = trial.moment == Moment::kMeeting || trial.moment == Moment::kConnecting || !joined;
  if (meeting && !joined) {
    if (!told_while_meeting(trial, told, victim)) return "what it was told does not lead to the victim";
  } else {
    if (told.code != "remote failure") return "the code is not \"remote failure\"";
    // In a part of the communicator the victim has another number.
    const bool in_part = contains(told.message, "\"blue/");
    // A survivor of it, whose own split failed because of the victim, may have given the part up.
    const bool second_hand = in_part && contains(told.message, "gave communicator");
    const bool named = contains(told.message, pid) && (told.peer == trial.victim || in_part);
    if (!named && !second_hand) return "it blames somebody else";
    const std::string again = survivor.line("again after=");
    // Destroying may be what told it.
    const bool destroyed = contains(text, "\nleaving\n") && contains(again, "it was destroyed");
    if (!destroyed && !contains(again, "code=" + told.code + " peer=" + std::to_string(trial.victim))) {
      return "a later call fails otherwise";
    }
    if (trial.shrinks() && survivor.line("shrunk to ") != std::to_string(trial.ranks - 1)) {
      return "the survivors do not go on together";
    }
    if (number_in("again after=" + again, "again after=") > 2'000) return "a later call takes long to fail";
  }
  if (joined && number_in(text, "destroyed after=") > 10'000) return "destroying takes long";
  long long bound = kGenerousMs;
  if (!joined) bound += 1'000LL * SoakPlace::kMeetSeconds;
  if (trial.fault == Fault::kStop) bound += 1'000LL * SoakPlace::kSilenceSeconds;
  return told_ms > bound ? "it was told after " + std::to_string(told_ms) + " ms" : "";
}

}  // namespace

Trial Trial::of_seed(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10; ++i) random();  // seeds that are neighbours begin alike
  Trial trial;
  trial.seed = seed;
  trial.ranks = 2 + static_cast<int>(random() % 5);
  trial.way = static_cast<Way>(random() % 4);
  const Fault faults[] = {Fault::kKill, Fault::kKill, Fault::kKill,  Fault::kKill, Fault::kStop,
                          Fault::kStop, Fault::kExit, Fault::kThrow, Fault::kAbort};
  trial.fault = faults[random() % std::size(faults)];
  const Moment moments[] = {Moment::kMeeting, Moment::kConnecting, Moment::kFirstUse,
                            Moment::kMiddle,  Moment::kMiddle,     Moment::kLeaving};
  trial.moment = moments[random() % std::size(moments)];
  trial.victim = static_cast<int>(random() % static_cast<unsigned>(trial.ranks));
  const int longest_us[] = {60'000, 250'000, 3'000, 60'000, 3'000};
  trial.time = std::chrono::microseconds(random() % static_cast<unsigned>(longest_us[static_cast<int>(trial.moment)]));
  switch (trial.moment) {
    case Moment::kMeeting:
      trial.step = -1;
      break;
    case Moment::kConnecting:
      trial.step = 0;
      break;
    case Moment::kFirstUse:
      trial.step = 1;
      break;
    case Moment::kMiddle:
      trial.step = 4 + static_cast<int>(random() % 30);
      break;
    case Moment::kLeaving:
      trial.step = kFewSteps;
      break;
  }
  return trial;
}

const char* Trial::way_name() const { return kWays[static_cast<int>(way)]; }
const char* Trial::fault_name() const { return kFaults[static_cast<int>(fault)]; }
const char* Trial::moment_name() const { return kMoments[static_cast<int>(moment)]; }

std::string Trial::text() const {
  return "seed " + std::to_string(seed) + ": " + fault_name() + " rank " + std::to_string(victim) + " of " +
         std::to_string(ranks) + " over " + way_name() + ", " + moment_name() +
         (by_itself() ? ", step " + std::to_string(step) : ", after " + std::to_string(time.count()) + " us");
}

SoakPlace::SoakPlace()
    : alone_(CLONE_NEWNET | CLONE_NEWNS, "ip link set lo up; mount -t tmpfs tmpfs /dev/shm"), hosts_(2) {}

std::vector<std::unique_ptr<ChildProcess>> SoakPlace::start(const Trial& trial) const {
  const int steps = trial.moment == Moment::kLeaving ? kFewSteps : kForEver;
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  for (int r = 0; r < trial.ranks; ++r) {
    const bool suffers = trial.by_itself() && r == trial.victim;
    Program program;
    program.command = {TUTTI_SOAK_WORKER,          std::to_string(trial.seed),
                       std::to_string(steps),      suffers ? trial.fault_name() : "none",
                       std::to_string(trial.step), trial.shrinks() ? "1" : "0"};
    const bool hosts = trial.way == Way::kHosts;
    const int half = r * 2 / trial.ranks;
    program.environment = by_hand(r, trial.ranks, hosts ? "10.77.0.1" : "127.0.0.1");
    program.environment["TUTTI_MEET_TIMEOUT"] = std::to_string(kMeetSeconds);
    program.environment["TUTTI_SILENCE"] = std::to_string(kSilenceSeconds);
    if (trial.way == Way::kTcp) program.environment["TUTTI_SHM_DISABLE"] = "1";
    if (trial.way == Way::kMixed) program.environment["TUTTI_HOSTID"] = half == 0 ? "one" : "other";
    program.place = hosts ? &hosts_.host(half) : &alone_;
    ranks.push_back(std::make_unique<ChildProcess>(program));
  }
  return ranks;
}

Outcome SoakPlace::run(const Trial& trial) {
  Outcome outcome;
  {
    auto ranks = start(trial);
    ChildProcess& victim = *ranks[static_cast<std::size_t>(trial.victim)];
    const long long since = strike(trial, ranks);
    if (since < 0) outcome.problem = "the moment did not come";
    for (int r = 0; r < trial.ranks && outcome.problem.empty(); ++r) {
      if (r == trial.victim) continue;
      ChildProcess& survivor = *ranks[static_cast<std::size_t>(r)];
      std::string wrong = "it hangs";
      long long told_ms = -1;
      if (survivor.wait(kPatience)) wrong = judge(trial, survivor, victim, since, told_ms);
      outcome.told_ms = std::max(outcome.told_ms, told_ms);
      if (!wrong.empty()) outcome.problem = "rank " + std::to_string(r) + ": " + wrong;
    }
    if (!outcome.problem.empty()) {
      for (int r = 0; r < trial.ranks; ++r) {
        const ChildProcess& rank = *ranks[static_cast<std::size_t>(r)];
        outcome.transcript +=
            "--- rank " + std::to_string(r) + " pid " + std::to_string(rank.pid()) + "\n" + rank.text();
      }
    }
  }
  if (outcome.problem.empty()) outcome.problem = left_behind();
  return outcome;
}

std::string SoakPlace::left_behind() const {
  for (const Namespace* place : {&alone_, &hosts_.host(0), &hosts_.host(1)}) {
    // A process that was killed takes a moment to go.
    for (int i = 0; i < 500 && !place->residents().empty(); ++i) ::usleep(10'000);
    if (!place->residents().empty()) return "process " + std::to_string(place->residents().front()) + " is left";
    const std::string left = place->output("ls -A /dev/shm; grep -a tutti /proc/net/unix || true");
    if (!left.empty()) return "files or sockets are left: " + left;
  }
  return "";
}

}  // namespace tutti
