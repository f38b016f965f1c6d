#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/net/key.h"
#include "bootstrap/connection.h"
#include "bootstrap/event_loop.h"
#include "bootstrap/hand_out.h"
#include "bootstrap/introduction.h"
#include "bootstrap/listener.h"

namespace tutti {

// Where the ranks of one communicator meet: gathers their introductions, checks that they belong together, tells each
// its place in the tree, and stays as the way to report trouble until all have met. Whatever makes the meeting fail is
// told to everybody who is here and to everybody who comes later. Ranks that wait long ask it for whom; it stops
// listening when all are here, because nobody else has any business there. Belongs to the loop's thread.
class Root {
 public:
  struct Place {
    Credentials own;                       // rank 0's, for Purpose::kMeet
    std::string name;                      // of the communicator, for messages; "": not known yet
    bool one_port;                         // the port may be needed for the next meeting at once
    std::chrono::milliseconds warning{0};  // as TUTTI_STALL_WARNING says
  };
  struct HandingOut {
    HandOut socket;
    std::string text;
  };

  Root(EventLoop& loop, UniqueFd listening, Place place);
  ~Root();

  void hand_out(std::unique_ptr<HandingOut> what);
  // Rank 0 has come and says what the communicator is called.
  void rename(std::string name) { place_.name = std::move(name); }

  // Ends the meeting with this reason, for those who are here and those who come; nothing when it is over.
  void refuse(const Poison& why) {
    if (phase_ != Phase::kOver) fail(why.code, why.reason, why.peer);
  }
  // Ranks that were told why it failed.
  int told() const { return static_cast<int>(told_.size()); }

  // Ends it. After a failure it stays for a moment, to tell the reason to those who come late, unless the next meeting
  // may need its port; and for as long as the loop is there.
  static void retire(EventLoop& loop, std::shared_ptr<Root> root);

 private:
  struct Guest {
    std::shared_ptr<Connection> connection;
    int rank = 0;
    int ranks = 0;
    bool introduced = false;
    // How far it is with connecting.
    bool joined = false;  // to its parent
    bool ready = false;   // and everybody below it
    bool met = false;
    Introduction introduction;
  };
  // By order of arrival. Guests that have not introduced themselves yet know the secret already.
  using Guests = std::map<std::uint64_t, Guest>;

  std::string judge(const Hello& hello) const;
  void greet(const Hello& hello, ProvenSocket socket);
  void receive(std::uint64_t number, FrameType type, std::span<const std::byte> payload);
  void ended(std::uint64_t number, const std::string& trouble);
  void introduced(Guest& guest, std::span<const std::byte> payload);
  std::string disagreement(const Guest& guest) const;
  void assign();
  void met(Guest& guest);
  void fail(ErrorCode code, const std::string& reason, int peer);
  void report();
  void expire();
  void answer(Guest& guest);
  bool is_of_this_process(const Guest& guest) const;
  std::string waits() const;
  std::string missing(int* only = nullptr) const;
  std::string turned_away() const;
  std::string in_the_way(int* only = nullptr) const;
  std::string describe(const Guest& guest) const;
  std::string title() const;
  void serve_hand_out();

  EventLoop& loop_;
  Place place_;
  const TroubleHook trouble_;
  std::optional<Listener> listener_;
  Guests guests_;
  std::uint64_t arrivals_ = 0;
  std::map<int, std::uint64_t> by_rank_;  // introduced guests
  int ranks_ = 0;                         // known from the first introduction on
  int met_ = 0;
  enum class Phase { kGathering, kConnecting, kOver } phase_ = Phase::kGathering;
  std::set<int> told_;
  Frame failure_;  // what everybody is told when it failed
  Clock::time_point began_;
  Deadline patience_ends_ = Deadline::max();
  Timer deadline_;
  Timer next_report_;
  int reports_ = 0;
  std::string waits_;  // what was last answered to a rank that waits, and when it was found out
  Clock::time_point waits_at_{};
  Timer hand_out_pause_;
  std::unique_ptr<HandingOut> handing_out_;
  std::optional<Watch> hand_out_watch_;
};

}  // namespace tutti
