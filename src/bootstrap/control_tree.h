#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/net/interfaces.h"
#include "bootstrap/connection.h"
#include "bootstrap/dialer.h"
#include "bootstrap/heartbeat.h"
#include "bootstrap/rank_table.h"
#include "bootstrap/roll_call.h"
#include "bootstrap/tree_messages.h"

namespace tutti {

// One rank's neighbours in the tree of control connections, and who of all its ranks is there: signs of life,
// departures, deaths. It stays one tree while ranks leave or die: whoever loses its parent finds another among the
// ranks below its own number, and a parent that leaves relays until it has. What is said on it about communicators
// belongs to ScopeBook. Belongs to the loop's thread.
class ControlTree {
 public:
  // Who this is and what it calls back. The callbacks run on the loop's thread and must not destroy the tree.
  struct Self {
    Credentials own;  // for Purpose::kTree
    std::chrono::milliseconds silence{0};
    std::vector<InterfaceRecord> interfaces;
    std::function<void(int from, FrameType, std::span<const std::byte>)> on_frame;  // what is not the tree's own
    std::function<void(const Goodbye&, int from)> on_goodbye;
    std::function<void(const Death&)> on_death;  // also of this rank, when others have given it up
    std::function<void(int rank)> on_neighbour;  // a new one: it is to be told by send() what the tree does not know
    std::function<void()> on_left;
  };
  static constexpr int kNobody = -1;

  ControlTree(EventLoop& loop, Self self);
  ~ControlTree();

  // Towards the first parent, whose addresses the root told; `done` gets "" or what went wrong.
  void join(int parent, std::vector<SocketAddress> addresses, std::chrono::milliseconds patience,
            std::function<void(const std::string& trouble)> done);
  // A rank with a higher number connected and was let in.
  void adopt(int rank, ProvenSocket socket);
  void set_table(std::shared_ptr<const RankTable> table) { table_ = std::move(table); }

  void send(int neighbour, const Frame& frame);
  void send_to_parent(const Frame& frame);
  void send_to_children(const Frame& frame);
  // To all neighbours but the one that it came from.
  void flood(const Frame& frame, int from = kNobody);
  // The same for a goodbye; several are collected for a moment.
  void spread(const Goodbye& goodbye, int from = kNobody);

  std::vector<int> neighbours() const;
  // Still a neighbour, and known to be here: what it is asked it should answer.
  bool should_answer(int neighbour) const;

  // All that is known of so far.
  const std::vector<Death>& deaths() const { return deaths_; }

  // Leaves and calls on_left when the neighbours can do without this rank, or after a bounded time; at once when
  // nothing of this rank's is left to be disturbed.
  void leave(bool at_once);

 private:
  enum class Role { kParent, kFormerParent, kChild };
  enum class Presence : std::uint8_t { kHere, kDeparted, kDead };
  struct Neighbour {
    std::shared_ptr<Connection> connection;
    Role role = Role::kChild;
    bool introduced = false;  // it sent its state: until then it may have changed its mind and not know that it is here
    bool released = false;    // this child said that it has another parent
  };

  void add(int rank, ProvenSocket socket, Role role);
  void receive(int rank, FrameType type, std::span<const std::byte> payload);
  void ended(int rank, const std::string& trouble);
  bool is_expected_to_end(int rank, const Neighbour& neighbour) const;
  bool given_up() const { return presence_[static_cast<std::size_t>(self_.own.rank)] == Presence::kDead; }
  bool is_here(int rank) const { return presence_[static_cast<std::size_t>(rank)] == Presence::kHere; }

  void learn(const TreeNews& news, int from);
  void learn_departure(int rank, int from);
  void learn_death(const Death& death, int from);
  void spread_news();

  std::shared_ptr<Dialer> dial(int rank, std::vector<SocketAddress> addresses, std::chrono::milliseconds patience,
                               Dialer::Done done);
  void orphaned();
  void find_parent();
  int next_candidate() const;
  void release_former_parents();
  std::vector<int> missing() const;

  void beat(bool overslept);
  void advance_leave();
  void finish_leave();

  EventLoop& loop_;
  const Self self_;
  std::shared_ptr<const RankTable> table_;  // shared with the control planes, whose callers read it
  std::vector<Presence> presence_;          // by rank
  std::vector<Death> deaths_;
  std::map<int, Neighbour> neighbours_;
  int parent_ = kNobody;
  struct News {
    std::optional<Goodbye> goodbye;  // none: a departure
    int rank;
    int from;
  };
  std::vector<News> news_;  // not passed on yet
  std::shared_ptr<Dialer> dialer_;
  std::set<int> tried_;  // as parents, in vain
  RollCall roll_call_;
  Timer spread_;
  Timer search_;
  Heartbeat heartbeat_;
  Timer leave_deadline_;
  bool searching_ = false;
  bool leaving_ = false;
  bool left_ = false;
};

}  // namespace tutti
