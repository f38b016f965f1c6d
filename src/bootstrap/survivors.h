#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/net/address.h"
#include "bootstrap/connection.h"
#include "bootstrap/dialer.h"
#include "bootstrap/heartbeat.h"
#include "bootstrap/survivor_messages.h"

namespace tutti {

// Who goes on, and where they meet.
struct SurvivorAgreement {
  std::vector<int> members;  // ranks of the old communicator, ascending
  Nonce nonce{};
  int leader = 0;  // at whose addresses the root listens
  std::uint16_t port = 0;
};

// What the control thread tells the thread that waits in shrink(). Guarded by its mutex.
struct SurvivorResults {
  std::mutex mutex;
  std::condition_variable changed;
  bool leads = false;  // this rank must open a root: Survivors::offer_root()
  std::optional<SurvivorAgreement> agreement;
  bool done = false;  // the new communicator is ready on all members
  bool lost = false;  // a member was lost before that
  std::optional<Poison> failure;
};

// One rank's part in the agreement of a communicator's survivors on a new one. Exists from the first visit of another
// rank, or this rank's own call, until this rank has left the communicator. Belongs to the loop's thread.
//
// The lowest rank that lives leads: everybody looks for it from rank 0 on, by connecting to listeners. It waits until
// every rank has joined or is dead, decides, collects acceptances, and has all of them meet; when that comes to nothing
// because somebody else died, all agree again.
class Survivors {
 public:
  struct Self {
    Credentials own;   // of the old communicator
    std::string name;  // of the communicator, for messages
    std::chrono::milliseconds silence{0};
    std::function<std::vector<SocketAddress>(int rank)> addresses;  // best first
    std::function<std::string(int rank)> describe;
    std::function<bool(int rank)> has_left;
  };

  Survivors(EventLoop& loop, Self self);
  ~Survivors();

  // Another rank connected for this purpose.
  void visit(int rank, ProvenSocket socket);

  // This rank calls. Until end(), `results` hears of it.
  void begin(SurvivorResults& results, Deadline deadline);
  // The leader's: where the others will meet, and how to end that.
  void offer_root(const Nonce& nonce, std::uint16_t port, std::function<void(const Poison& why)> refuse);
  // What this rank's call waits for: "for rank 3 (…): …".
  std::string waits() const;
  // This rank's part of the new communicator is ready; results.done or results.lost follows.
  void opened();
  // The agreement came to nothing: another one.
  void again();
  // The call is over, however it ended.
  void end();

 private:
  enum class Phase {
    kIdle,       // this rank is not in a call
    kSeeking,    // looks for the leader
    kFollowing,  // joined a rank below its own
    kLeading,    // waits until every rank has joined or is dead
    kDeciding,   // leads: waits for acceptances
    kMeeting,    // the members are making the new communicator
  };
  struct Visitor {
    std::shared_ptr<Connection> connection;
    bool joins = false;
    Nonce earlier{};  // the agreement that came to nothing
    bool accepted = false;
    bool opened = false;
  };
  struct Probe {
    std::shared_ptr<Dialer> dialer;
    std::shared_ptr<Connection> connection;
  };
  using Kind = SurvivorMessage::Kind;

  void hear_visitor(int rank, FrameType type, std::span<const std::byte> payload);
  void receive_join(int rank);
  void visitor_ended(int rank);
  void refuse(int rank, const Poison& why);

  void seek();
  void dial(int rank);
  void follow(int rank, ProvenSocket socket);
  void hear_leader(FrameType type, std::span<const std::byte> payload);
  void leader_ended();
  void leave_leader();
  void redirect_joined(int leader);

  void lead();
  void probe_absent();
  void probe(int rank);
  void hear_probed(FrameType type, std::span<const std::byte> payload);
  void probe_ended(int rank);
  void advance();
  void decide();
  void check_accepted();
  void check_opened();

  void commit();
  void finish_done();
  void lose();
  void expire();
  std::string absent(int* only = nullptr) const;
  void fail(const Poison& why);
  void drop_connections();

  void beat(bool overslept);
  void watch();
  std::chrono::milliseconds dial_patience() const;
  std::shared_ptr<Connection> connect(ProvenSocket socket);
  Hello hello_to(int rank) const;
  bool joined(int rank) const;
  bool leads() const { return phase_ == Phase::kLeading || phase_ == Phase::kDeciding; }
  Poison gone_on(int rank) const;
  void tell(const std::function<void(SurvivorResults&)>& change);
  static void send(Connection& connection, const SurvivorMessage& message);

  EventLoop& loop_;
  const Self self_;
  SurvivorResults* results_ = nullptr;
  Deadline deadline_;
  Phase phase_ = Phase::kIdle;
  std::map<int, Visitor> visitors_;

  // seeking and following
  int candidate_ = 0;
  int leader_ = 0;
  bool welcomed_ = false;  // the leader knows that it leads
  std::set<int> gone_;     // ranks below this one that were not found, or ended
  std::shared_ptr<Dialer> dialer_;
  std::shared_ptr<Connection> to_leader_;

  // leading
  std::set<int> dead_;
  std::map<int, Probe> probes_;
  std::optional<std::pair<Nonce, std::uint16_t>> root_;
  std::function<void(const Poison& why)> refuse_meeting_;

  std::uint64_t round_ = 0;
  SurvivorAgreement agreement_;
  bool opened_ = false;
  Nonce earlier_{};  // this call's agreement that came to nothing

  // The last agreement that went well: whoever is not part of it is told so.
  SurvivorAgreement done_;

  Timer expiry_;
  Timer retry_;
  Timer probing_;
  Heartbeat heartbeat_;
  bool beating_ = false;
};

}  // namespace tutti
