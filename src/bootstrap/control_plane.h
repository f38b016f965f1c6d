#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/handles.h"
#include "base/health.h"
#include "bootstrap/findings.h"
#include "bootstrap/membership.h"

namespace tutti {

// Why a communicator could not be made, where the other ranks have been told, or know better.
class ToldFailure : public Error {
 public:
  explicit ToldFailure(const Error& error) : Error(error) {}
};

// What a rank can say about one of its calls; fixed size, so that it can be kept without allocating and sent as bytes.
struct CallDescription {
  std::uint64_t sequence = 0;
  std::uint64_t signature = 0;
  char text[112] = {};  // "all_reduce f32×1000 sum", always terminated
};

// Answers what this rank did in call number `sequence`; false when it has not issued it or no longer knows.
// Called on the control thread.
using DescribeCall = std::function<bool(std::uint64_t sequence, CallDescription& out)>;

// What one rank learned when it asked all members of a communicator what they do.
struct Survey {
  // A process that did not answer in time.
  struct Silent {
    int rank = -1;         // -1: it is no member, but members may lie behind it
    std::string process;   // "rank 3 (node1 pid 77)"; of the tree when it is no member
    std::string observer;  // whose question it did not answer
  };
  Findings findings;  // of members
  std::vector<Silent> silent;
  RankSet unknown;  // members of whom nothing is known, because they lie behind one that does not answer
};

// What is asked of a rank by others. All of it is called on the control thread and must not block.
struct SurveyHandlers {
  std::function<std::vector<Activity>()> describe;                    // what this rank does
  std::function<void(int asker)> asked;                               // another rank asked
  std::function<void(const std::string& text, int blamed)> reported;  // and this is what it made of the answers
};

// A call of shrink() on one rank: agree(), make the communicator, opened(); again from the start when that fails and
// there is time. Not after the control plane that made it. One thread.
class SurvivorCall {
 public:
  virtual ~SurvivorCall() = default;

  // What this rank is in the new communicator; nothing when the agreement before turned out to have gone well. Blocks.
  // Throws Error: kTimeout, which names the ranks that live but did not call; kRemote when the others have gone on
  // without this one.
  virtual std::optional<Membership> agree() = 0;
  // This rank's part of the new communicator is ready. Blocks until everybody's is; false: somebody was lost.
  virtual bool opened() = 0;
};

// The ranks of a communicator, connected by a tree of sockets that stays open and tells the living from the dead. One
// per communicator and rank. Those who meet() make a tree; communicators that are split() off share it, and it stays as
// long as any of them does on this rank. All sockets are served by the process's control thread.
class ControlPlane {
 public:
  // initiated_here: connect_data() on this rank opened it, not the peer.
  using DataHandler = std::function<void(int peer, UniqueFd socket, bool initiated_here)>;

  // Meets the other ranks at the root. Blocks until all are here. Throws Error: kTimeout with the missing ranks,
  // kUnauthorized, kMismatch (two ranks with one number, another rank count, version or agreed settings),
  // kRemote when a rank left while others waited. While it waits, one line a few seconds says who is missing.
  static std::unique_ptr<ControlPlane> meet(const Membership& membership, const Config& config, Health& health);

  // Instead of meeting: this rank cannot take part, because of an error of its own, and those who wait for it are told
  // at once. `config`: whatever of the settings can be read. Blocks for a few seconds at most; throws nothing.
  static void complain(const Membership& membership, const Config& config, const Error& error);

  virtual ~ControlPlane() = default;

  // Some of these ranks, as another communicator.
  struct Subset {
    std::vector<int> members;  // ranks here, by rank there
    int rank = 0;              // this one's there
    std::string label;         // tells it from every other that was or will be split off this one
    std::string name;          // for messages
  };
  // All members call it, with equal arguments but for the rank; sends nothing and waits for nobody. What fails one of
  // the two communicators is no failure of the other, but the death of a rank of both. `health` outlives leave().
  virtual std::unique_ptr<ControlPlane> split(const Subset& subset, Health& health) = 0;

  // Of the ranks that met, for their set-up: those that were split off exchange what they must over their parent.
  // Every rank contributes bytes (at most 64 KiB); all get everybody's, by rank. Collective: all ranks call it in the
  // same order. O(log n) messages a rank. Blocks; throws Error(kTimeout) or the reason why the communicator failed.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, Deadline deadline) = 0;

  // Whom this rank waits for in an exchange: it is not there, or waits itself. -1: nobody. On the control thread.
  virtual int waits_for() const = 0;

  // Host name and process id of every rank, for messages: "rank 3 (node1 pid 77)".
  virtual std::string describe(int rank) const = 0;

  // Fails this communicator on every rank, with this reason. Never waits.
  virtual void poison(ErrorCode code, const std::string& reason, int peer) = 0;

  // The same for who calls it on the control thread: the others are told before calls of this rank see it, which may
  // end and leave at once.
  virtual void poison_in_order(ErrorCode code, const std::string& reason, int peer) = 0;

  // Compares call `sequence` with every rank that has issued it. A rank that finds another signature poisons the
  // communicator with both descriptions. Never waits; asking again for the same call does nothing.
  virtual void compare_call(const CallDescription& mine) = 0;
  virtual void set_describe_call(DescribeCall describe) = 0;

  // Who keeps others waiting. Asks every member what it does, after `delay`, if it is `wanted` then and no question of
  // this rank is under way; `done` is called within about a second. Both on the control thread, if at all. Never waits.
  virtual void survey(std::chrono::milliseconds delay, std::function<bool()> wanted,
                      std::function<void(const Survey&)> done) = 0;
  // Tells all other members. Never waits.
  virtual void report(const std::string& text, int blamed) = 0;
  virtual void set_survey_handlers(SurveyHandlers handlers) = 0;

  // Data connections: both ends are authenticated before the handler sees the socket (non-blocking, TCP_NODELAY).
  // The handler runs on the control thread. connect_data never waits; it fails the communicator when it cannot connect.
  virtual void set_data_handler(DataHandler handler) = 0;
  // Called every second on the control thread from now on: looks after data that is under way while this rank is in no
  // call. Must not block.
  virtual void set_data_watch(std::function<void()>) {}
  virtual void connect_data(int peer) = 0;
  // Called on the control thread when this rank cannot connect to a peer and waits for that one to connect (true), and
  // when it tries again itself (false).
  virtual void set_data_waits(std::function<void(int peer, bool waits)>) {}

  // This rank wants to go on with those that live; the others know from here on. `config` outlives the call. Throws
  // Error(kInvalidArgument) when this rank has left.
  virtual std::unique_ptr<SurvivorCall> call_survivors(const Config& config, Deadline deadline) = 0;

  // A key of this communicator for the purpose named (32 bytes), the same on all its ranks.
  virtual std::vector<std::byte> derive_key(std::string_view purpose) const = 0;

  // Says goodbye: this rank took part in every call up to `last_call`. With the last communicator on the tree that this
  // rank leaves, waits for a bounded time until its neighbours have read it; then everything is closed. What is called
  // afterwards does nothing.
  virtual void leave(std::uint64_t last_call) = 0;
};

}  // namespace tutti
